// The frame of the page: it asks for the data of the view that is open, every two seconds, and hands on what has changed.
//
// A view is a custom element with two static fields, `title` and `source`, and a method update(data); repaint() draws it in other colours. rest is what stands
// behind the view's name in the address: #map/10.96.0.0/24. A view may name a second question, `also`, whose answer goes to answer(data).
import { h } from './dom.js'
import { theme } from './theme.js'
import './ranges.js'
import './addresses.js'
import './map.js'
import './policies.js'
import './renumberings.js'
import './findings.js'
import './operator.js'
import './why.js'

const views = ['ranges', 'addresses', 'map', 'policies', 'refusals', 'renumberings', 'findings', 'health', 'why']
const interval = 2000
const nav = document.querySelector('nav'), main = document.querySelector('main')
const cluster = document.querySelector('#cluster'), trouble = document.querySelector('#trouble')

let open = null // the view that is shown
let timer = 0
let asking = new AbortController() // of the last questions: the next ones take them back
const known = new Map() // by address: the tag of the last answer that was shown

// Ended says that no console answers at this address any more.
class Ended extends Error {}

// receive gets a whole response. Whatever the browser fails with, unless the question was taken
// back, the console did not answer, or stopped in the middle.
async function receive(path, signal) {
  try {
    const response = await fetch('api/' + path, { signal, headers: known.has(path) ? { 'If-None-Match': known.get(path) } : {} })
    return [response, await response.text()]
  } catch (e) {
    throw signal.aborted ? e : new Ended()
  }
}

// ask hands the answer of a source to take, unless that one is shown already. It is remembered once
// take has shown it: an answer that came too late, or that take failed at, has to come again.
async function ask(path, signal, take) {
  const [response, text] = await receive(path, signal)
  signal.throwIfAborted()
  if (response.status === 304) return
  if (response.status === 403) throw new Ended() // the port is that of another console now
  const answer = JSON.parse(text)
  if (!response.ok) throw new Error(answer.error)
  take(answer)
  known.set(path, response.headers.get('ETag'))
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
  if (open?.localName !== 'clusterip-' + name) show(name, rest)
  else {
    open.rest = rest
    open.refilter?.()
  }
  known.clear()
  poll()
}

// show replaces the view. What had the focus in the former one is gone: the next Tab begins in the new one.
function show(name, rest) {
  const focus = main.contains(document.activeElement)
  open = document.createElement('clusterip-' + name)
  open.rest = rest
  open.append(h('p', { class: 'empty' }, 'Reading …'))
  main.replaceChildren(open)
  if (focus) main.focus()
  document.title = kind(name).title + ' · clusterip console'
  for (const a of nav.children) {
    if (a.hash === '#' + name) a.setAttribute('aria-current', 'page')
    else a.removeAttribute('aria-current')
  }
  nav.querySelector('[aria-current]').scrollIntoView({ block: 'nearest', inline: 'nearest' })
}

async function poll() {
  clearTimeout(timer)
  asking.abort()
  asking = new AbortController()
  const { signal } = asking, view = open, { path, source } = view.constructor
  let error
  const asked = ask('state', signal, state => {
    last = state
    head(error)
  }).catch(e => { error = e })
  try {
    const main = path ? path(view.rest) : source
    if (main) await ask(main, signal, data => view.update(data))
    if (view.also) await ask(view.also, signal, data => view.answer(data))
  } catch (e) {
    error = e
  }
  await asked
  if (signal.aborted) return
  head(error)
  timer = setTimeout(poll, view.constructor.interval ?? interval)
}

let last = null // the last state

// say changes what an element says. What is read aloud when it changes is not touched without need.
function say(element, text) {
  if (element.textContent !== text) element.textContent = text
}

// head says which cluster it is, whether it answers, and what else went wrong.
function head(error) {
  let text = ''
  if (error instanceof Ended) text = 'The console does not answer: `kubectl clusterip console` has ended. Start it again, and open the address that it prints.'
  else if (last?.error) text = `The API server does not answer: ${last.error}. What is shown is as it was last known.`
  else if (error) text = error.message
  say(trouble, text)
  if (!last) return
  const ips = last.bitmap ? `${last.withIPAddress} of ${last.clusterIPs} ClusterIPs have an IPAddress (the bitmap allocates)` : `${last.clusterIPs} ClusterIPs`
  say(cluster, [last.host, last.version ?? 'does not answer', ips].join(' · '))
}

theme(document.querySelector('#theme'), () => open.repaint?.())
nav.append(...views.map((name, i) => h('a', { href: '#' + name, accesskey: String(i + 1) }, kind(name).title)))
addEventListener('hashchange', route)
main.addEventListener('ask', () => {
  known.clear()
  poll()
})
// The address names the view, so that the skip link must not write into it.
document.querySelector('.skip').addEventListener('click', e => {
  e.preventDefault()
  main.focus()
})
// The figures open views, and a slash the search, unless the user types.
addEventListener('keydown', e => {
  if (e.target.closest('input, select, textarea') || e.ctrlKey || e.altKey || e.metaKey) return
  const search = e.key === '/' && open.querySelector('[data-search]'), name = views[Number(e.key) - 1]
  if (!search && !name) return
  e.preventDefault() // or the key is typed where the focus goes
  if (search) search.focus()
  else location.hash = name
})
route()
