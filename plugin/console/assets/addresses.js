// All addresses that are in use, kept or cooling down, and who has them.
import { age, facts, h, show } from './dom.js'
import { link, List, why } from './list.js'

const parents = a => (a.parents ?? []).join(', ')
// names are those of Services without their kind: NAMESPACE/NAME, by which parents are filtered, and their namespaces.
const services = a => (a.parents ?? []).filter(p => p.startsWith('service/')).map(p => p.slice('service/'.length))
const names = a => (a.parents ?? []).map(p => p.slice(p.indexOf('/') + 1))

// parentLink leads to the answer about a Service or a policy; `why` takes no objects of other managers.
const parentLink = p => p.startsWith('service/') || p.startsWith('policy/') ? why(p) : h('span', {}, p)

function detail(a, old) {
  const out = old ?? h('section', { 'aria-label': a.address })
  show(out, facts(['Parent', a.parents && h('span', {}, a.parents.map(parentLink))], ['Note', a.note], ['ServiceCIDR', a.ranges?.join(', ')], ['Band', a.band], ['Policy', a.policy], ['Wrong', a.wrong && h('span', { class: 'bad' }, a.wrong.join(', '))]),
    h('p', { class: 'links' }, why(a.address, 'Why'), link('map/' + around(a.address), 'Map')))
  return out
}

// around is the part of the map that shows single addresses around one: no range has fewer than it is cut to.
const around = address => address + (address.includes(':') ? '/120' : '/24')

const columns = [
  { title: 'Address', text: a => a.address, sort: a => a.place, width: 12 },
  { title: 'State', text: a => a.state, width: 6, narrow: 'beside' },
  { title: 'Parent', text: parents, width: 16, narrow: 'whole' },
  { title: 'Range', text: a => (a.ranges ?? []).join(', '), width: 9 },
  { title: 'Band', text: a => a.band, width: 6 },
  { title: 'Policy', text: a => a.policy, width: 7, narrow: 'away' },
  { title: 'Note', text: a => a.note, width: 10, narrow: 'away' },
  { title: 'Wrong', text: a => (a.wrong ?? []).join(', '), cell: a => a.wrong ? h('span', { class: 'bad' }, a.wrong.join(', ')) : '', width: 7, narrow: 'away' },
  { title: 'Age', number: true, text: a => a.since ? age(a.since * 1000) : 'unknown', sort: a => a.since ? -a.since : undefined, search: false, width: 4.5 },
]

const filters = [
  { name: 'range', label: 'Range', values: a => a.ranges ?? [] },
  { name: 'namespace', label: 'Namespace', values: a => services(a).map(s => s.split('/')[0]) },
  { name: 'parent', label: 'Parent', values: names },
  { name: 'state', label: 'State', values: a => [a.state, a.wrong && 'wrong'], options: [['allocated', 'allocated'], ['reserved', 'reserved'], ['cooling', 'cooling down'], ['wrong', 'something is wrong']] },
]

class Addresses extends List {
  static title = 'Addresses'
  static source = 'addresses'
  static interval = 5000 // the command looks no more often, and there are many
  static grid = { caption: 'Addresses in use, kept or cooling down', columns, filters, key: a => a.address, detail, attributes: a => ({ 'data-address': a.address }) }

  rows(data) {
    this.note.textContent = data.of > data.rows.length ? `The first ${data.rows.length} of ${data.of} addresses; \`kubectl clusterip addresses\` prints all.` : ''
    return data.rows.map((row, place) => ({ ...row, place }))
  }
}

customElements.define('clusterip-addresses', Addresses)
