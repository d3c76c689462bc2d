// The frame of the page: it asks for the data of the view that is open, every two seconds, and hands on what has changed.
//
// A view is a custom element with two static fields, `title` and `source`, and a method update(data, rest). rest is what stands behind the view's
// name in the address: #map/10.96.0.0/24.
import { h } from './dom.js'
import './ranges.js'
import './map.js'
import './lists.js'
import './why.js'

const views = ['ranges', 'map', 'policies', 'findings', 'health', 'why']
const interval = 2000
const nav = document.querySelector('nav'), main = document.querySelector('main')
const cluster = document.querySelector('#cluster'), trouble = document.querySelector('#trouble')

let open = null // the view that is shown
let timer = 0
let asking = 0 // the number of the last question, so that late answers to earlier ones are dropped
const known = new Map() // by address: the tag of the last answer

// ask gets an answer of a source; undefined if it is the last one again.
async function ask(path) {
  const response = await fetch('api/' + path, { headers: known.has(path) ? { 'If-None-Match': known.get(path) } : {} })
  if (response.status === 304) return undefined
  if (response.status === 403) throw new TypeError('no console of this address')
  const answer = await response.json()
  if (!response.ok) throw new Error(answer.error)
  known.set(path, response.headers.get('ETag'))
  return answer
}

function where() {
  const [name, ...rest] = decoded(location.hash.slice(1)).split('/')
  return { name: views.includes(name) ? name : views[0], rest: rest.join('/') }
}

// decoded takes text as it is that was not encoded.
function decoded(text) {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

const kind = name => customElements.get('clusterip-' + name)

// route opens the view that the address names.
function route() {
  const { name, rest } = where()
  if (open?.localName !== 'clusterip-' + name) {
    open = document.createElement('clusterip-' + name)
    open.append(h('p', { class: 'empty' }, 'Reading …'))
    main.replaceChildren(open)
    document.title = kind(name).title + ' · clusterip console'
    for (const a of nav.children) {
      if (a.hash === '#' + name) a.setAttribute('aria-current', 'page')
      else a.removeAttribute('aria-current')
    }
  }
  open.rest = rest
  known.clear()
  poll()
}

async function poll() {
  clearTimeout(timer)
  const question = ++asking, view = open
  const path = view.constructor.path ? view.constructor.path(view.rest) : view.constructor.source
  let error
  const asked = ask('state').then(state => {
    if (question !== asking) return
    last = state ?? last
    head(error)
  })
  try {
    const data = path && await ask(path)
    if (question === asking && data !== undefined) view.update(data)
  } catch (e) {
    error = e
  }
  await asked.catch(e => { error = e })
  if (question !== asking) return
  head(error)
  timer = setTimeout(poll, interval)
}

let last = null // the last state

// head says which cluster it is, whether it answers, and what else went wrong.
function head(error) {
  let text = ''
  if (error instanceof TypeError) text = 'The console does not answer: `kubectl clusterip console` has ended. Start it again, and open the address that it prints.'
  else if (last?.error) text = `The API server does not answer: ${last.error}. What is shown is as it was last known.`
  else if (error) text = error.message
  if (trouble.textContent !== text) trouble.textContent = text // it is read aloud when it changes
  if (!last) return
  const ips = last.bitmap ? `${last.withIPAddress} of ${last.clusterIPs} ClusterIPs have an IPAddress (the bitmap allocates)` : `${last.clusterIPs} ClusterIPs`
  cluster.textContent = [last.host, last.version ?? 'does not answer', ips].join(' · ')
}

// Themes: what the system has, until the user chooses.
const theme = document.querySelector('#theme')
const dark = () => (document.documentElement.dataset.theme ?? (matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light')) === 'dark'
function paint() {
  known.clear() // views draw themselves anew
  poll()
}
theme.addEventListener('click', () => {
  document.documentElement.dataset.theme = dark() ? 'light' : 'dark'
  paint()
})
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', paint)

nav.append(...views.map((name, i) => h('a', { href: '#' + name, accesskey: String(i + 1) }, kind(name).title)))
addEventListener('hashchange', route)
// The figures 1 to 6 open views, unless somebody types.
addEventListener('keydown', e => {
  if (e.target.closest('input, select, textarea') || e.ctrlKey || e.altKey || e.metaKey) return
  const name = views[Number(e.key) - 1]
  if (!name) return
  e.preventDefault() // or the figure is typed where the focus goes
  location.hash = name
})
route()
