// Ranges with their use, over time and as it is forecast.
import './curve.js'
import { age, count, facts, h, show, span, verdict } from './dom.js'
import { link, List, why } from './list.js'
import { full, sum, used } from './usage.js'

// parts are all that a bar shows: it is made anew when one of them has changed.
const parts = r => ['allocated', 'reserved', 'cooling', 'free'].map(what => sum(r, what)).join(' ')

// bar shows how much of a range is used for what. It is no canvas: eighty of them took a tenth of a second.
function bar(r) {
  const part = state => {
    const e = h('span', { class: state })
    e.style.width = sum(r, state) / sum(r, 'size') * 100 + '%'
    return sum(r, state) > 0 && e
  }
  return h('span', { class: 'bar', role: 'img', 'aria-label': `${used(r)} % in use` }, ...['allocated', 'reserved', 'cooling'].map(part))
}

const grows = r => r.static.growthPerDay !== undefined || r.dynamic.growthPerDay !== undefined

function forecast(r) {
  if (full(r)) return 'full'
  if (r.fullInSeconds !== undefined) return span(r.fullInSeconds)
  return grows(r) ? 'not growing' : 'unknown'
}

function forecastClass(r) {
  if (full(r)) return 'bad'
  if (r.fullInSeconds === undefined) return 'weak'
  return r.fullInSeconds < 7 * 86400 ? 'bad' : null
}

function ready(r) {
  if (r.blockedBy) return 'Blocked'
  if (r.terminating) return 'Terminating'
  return r.ready ? 'True' : 'False'
}

// policies are those that have a range, with what each does with it.
const policies = r => (r.policies ?? []).map(p => {
  const as = [['exclusivePolicies', 'exclusive'], ['byRequestPolicies', 'by request'], ['cordoningPolicies', 'cordoned']].filter(([of]) => (r[of] ?? []).includes(p))
  return as.length ? `${p} (${as.map(([, text]) => text).join(', ')})` : p
})
const id = r => r.serviceCIDR + ' ' + r.cidr

const trouble = r => r.troubles.map(c => `${typeOf(c)} is ${c.status}: ${c.message}`).join('; ')
// typeOf is the part of a condition's type that tells it apart.
const typeOf = c => c.type.split('/').at(-1)

// conditionTexts says what conditions say, and since when.
const conditionTexts = r => [
  r.migrated && h('p', {}, `Migrated is ${r.migrated.status}: ${r.migrated.message}`),
  ...r.troubles.map(c => h('p', { class: 'bad' }, `${typeOf(c)} is ${c.status} for ${age(c.lastTransitionTime)}: ${c.message}`)),
]

const band = b => `${count(b.allocated)} of ${count(b.size)} used, ${count(b.free)} free`

function detailFacts(r) {
  return [
    facts(['Static band', r.static.size ? band(r.static) : 'none'], ['Dynamic band', band(r.dynamic)],
      ['Growth', grows(r) ? `${count(sum(r, 'growthPerDay'))} a day` : 'unknown'], ['Policies', policies(r).join(', ')], ['Age', age(r.created)]),
    ...conditionTexts(r),
    h('p', { class: 'links' }, link('map/' + r.cidr, 'Map'), link('addresses/range=' + encodeURIComponent(r.serviceCIDR), 'Addresses'), why('range/' + r.serviceCIDR, 'Why')),
  ]
}

// detail is the curve of a range, and what else is known of it.
function detail(r, old) {
  const out = old ?? h('section', { class: 'range', 'aria-label': 'Use of ' + r.cidr }, h('div', { class: 'chart' }, h('h3', {}, `${r.cidr}: the addresses in use today, by when they were taken`), h('clusterip-curve', {})), h('div', {}))
  out.querySelector('clusterip-curve').show(r)
  show(out.lastChild, detailFacts(r))
  return out
}

const columns = [
  { title: 'Range', text: r => r.cidr, width: 13 },
  { title: 'ServiceCIDR', text: r => r.serviceCIDR, width: 8, narrow: 'beside' },
  { title: 'In use', text: parts, cell: bar, sort: used, search: false, width: 8, narrow: 'whole' },
  { title: 'Used', number: true, text: r => `${sum(r, 'allocated')} (${used(r)} %)`, sort: r => sum(r, 'allocated'), search: false, width: 7.5 },
  { title: 'Free', number: true, text: r => count(sum(r, 'free')), sort: r => sum(r, 'free'), search: false, width: 6 },
  { title: 'Reserved', number: true, text: r => sum(r, 'reserved'), sort: r => sum(r, 'reserved'), search: false, width: 6 },
  { title: 'Cooling', number: true, text: r => sum(r, 'cooling'), sort: r => sum(r, 'cooling'), search: false, width: 5.5 },
  { title: 'Full in', number: true, text: forecast, cell: r => h('span', { class: forecastClass(r) }, forecast(r)), sort: r => full(r) ? 0 : r.fullInSeconds, width: 6.5 },
  { title: 'Ready', text: ready, cell: r => verdict(ready(r) === 'True', ready(r)), width: 5.5 },
  { title: 'Policies', text: r => policies(r).join(', '), width: 7.5, narrow: 'away' },
  { title: 'Trouble', text: trouble, cell: r => h('span', { class: 'bad' }, trouble(r)), width: 7.5, narrow: 'away' },
]

const filters = [
  { name: 'family', label: 'Family', values: r => r.family, options: [['IPv4', 'IPv4'], ['IPv6', 'IPv6']] },
  { name: 'only', label: 'Only', options: [['nearly', 'three quarters used'], ['full', 'full'], ['wrong', 'with something wrong']],
    values: r => [used(r) >= 75 && 'nearly', full(r) && 'full', (ready(r) !== 'True' || r.troubles.length > 0) && 'wrong'] },
  { name: 'policy', label: 'Policy', values: r => r.policies ?? [] },
]

class Ranges extends List {
  static title = 'Ranges'
  static source = 'ranges'
  static grid = { caption: 'Ranges, the one that is full first at the top', columns, filters, key: id, detail, attributes: r => ({ 'data-range': r.cidr }) }

  // also is what is asked besides: the curve of the range that is open.
  get also() {
    const r = this.grid?.opened()
    return r && 'history?cidr=' + encodeURIComponent(r.cidr)
  }

  answer(curve) {
    const r = this.grid.opened()
    if (r?.cidr === curve.cidr) this.querySelector('clusterip-curve')?.show(r, curve.points)
  }
}

customElements.define('clusterip-ranges', Ranges)
