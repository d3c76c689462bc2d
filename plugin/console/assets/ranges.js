// Ranges with their use, over time and as it is forecast.
import { age, colour, count, h, show, span, table } from './dom.js'
import { fill, paintBox } from './pattern.js'

const sum = (r, what) => (r.static[what] ?? 0) + (r.dynamic[what] ?? 0)
const share = (part, whole) => whole === 0 ? 100 : Math.floor(part / whole * 100)

// bar draws how much of a range is used for what.
function bar(r) {
  const canvas = h('canvas', { class: 'bar', width: 270, height: 21, role: 'img', 'aria-label': `${share(sum(r, 'size') - sum(r, 'free'), sum(r, 'size'))} % in use` })
  const c = canvas.getContext('2d'), box = paintBox(c), size = sum(r, 'size')
  fill(c, box, 'free', 0, 0, 270, 21)
  let x = 0
  for (const state of ['allocated', 'reserved', 'cooling']) {
    const w = Math.min(270 - x, sum(r, state) / size * 270)
    if (w > 0) fill(c, box, state, x, 0, Math.max(1, w), 21)
    x += w
  }
  return canvas
}

function forecast(r) {
  if (sum(r, 'free') === 0) return h('span', { class: 'bad' }, 'full')
  if (r.fullInSeconds !== undefined) return h('span', { class: r.fullInSeconds < 7 * 86400 ? 'bad' : null }, span(r.fullInSeconds))
  const known = r.static.growthPerDay !== undefined || r.dynamic.growthPerDay !== undefined
  return h('span', { class: 'weak' }, known ? 'not growing' : 'unknown')
}

function ready(r) {
  if (r.blockedBy) return h('span', { class: 'bad' }, 'Blocked')
  if (r.terminating) return h('span', { class: 'bad' }, 'Terminating')
  return r.ready ? h('span', { class: 'good' }, 'True') : h('span', { class: 'bad' }, 'False')
}

const id = r => r.serviceCIDR + ' ' + r.cidr

class Ranges extends HTMLElement {
  static title = 'Ranges'
  static source = 'ranges'

  disconnectedCallback() { this.plot?.destroy() }

  update(data) {
    this.data = data
    const chosen = data.find(r => id(r) === this.chosen) ?? data[0]
    const columns = [
      { title: 'Range', cell: r => h('button', { type: 'button', 'data-key': id(r), onclick: () => { this.chosen = id(r); this.update(this.data) } }, r.cidr) },
      { title: 'ServiceCIDR', cell: r => r.serviceCIDR },
      { title: 'In use', cell: bar },
      { title: 'Used', number: true, cell: r => `${sum(r, 'allocated')} (${share(sum(r, 'size') - sum(r, 'free'), sum(r, 'size'))} %)` },
      { title: 'Free', number: true, cell: r => count(sum(r, 'free')) },
      { title: 'Reserved', number: true, cell: r => sum(r, 'reserved') },
      { title: 'Cooling', number: true, cell: r => sum(r, 'cooling') },
      { title: 'Static band', number: true, cell: r => r.static.size ? share(r.static.size - r.static.free, r.static.size) + ' %' : 'none' },
      { title: 'Full in', number: true, cell: forecast },
      { title: 'Ready', cell: ready },
      { title: 'Policies', cell: r => (r.policies ?? []).map(p => (r.exclusivePolicies ?? []).includes(p) ? p + ' (exclusive)' : p).join(', ') },
      { title: 'Age', number: true, cell: r => age(r.created) },
      { title: 'Map', cell: r => h('a', { href: '#map/' + r.cidr, 'data-key': 'map ' + id(r) }, 'Map') },
    ]
    const rows = table('Ranges, the one that is full first at the top', columns, data, r => ({ 'aria-selected': String(r === chosen), 'data-range': r.cidr }))
    show(this, h('h2', {}, 'Ranges'), rows, chosen && this.detail(chosen))
  }

  // draw replaces the last plot: the library keeps those that are not destroyed.
  draw(r) {
    this.plot?.destroy()
    this.plot = null
    if (r.history.length < 2) return h('p', { class: 'weak' }, 'There is nothing to draw yet.')
    const holder = h('div', { role: 'img', 'aria-label': `${r.history.at(-1)[1]} addresses are in use now` })
    this.plot = plot(r, holder)
    return holder
  }

  detail(r) {
    const troubles = r.conditions.filter(c => (c.type === 'Ready') !== (c.status === 'True'))
    return h('section', { class: 'chart', 'aria-label': 'Use of ' + r.cidr },
      h('h3', {}, `${r.cidr}: the addresses in use today, by when they were taken`),
      this.draw(r),
      r.conditions.filter(c => c.type.endsWith('/Migrated')).map(c => h('p', {}, `Migrated is ${c.status}: ${c.message}`)),
      troubles.map(c => h('p', { class: 'bad' }, `${c.type} is ${c.status} for ${age(c.lastTransitionTime)}: ${c.message}`)))
  }
}

// plot draws the use of a range until now, and how it goes on at the present growth, for as long again at most.
function plot(r, holder) {
  const past = r.history
  const size = sum(r, 'size'), [now, used] = past.at(-1), grows = sum(r, 'growthPerDay') / 86400
  const until = now + Math.max(60, Math.min(r.fullInSeconds ?? Infinity, now - past[0][0]))
  const then = Math.min(used + grows * (until - now), size)
  const times = [...past.map(p => p[0]), until]
  const gaps = past.slice(1).map(() => null)
  const near = Math.max(used, then) > size / 4 // a line far above would flatten the curve
  const series = [
    {},
    { label: 'in use', stroke: colour('allocated'), width: 2, paths: uPlot.paths.stepped({ align: 1 }), points: { show: false } },
    { label: 'forecast', stroke: colour('wrong'), width: 2, dash: [6, 5], points: { show: false } },
    ...(near ? [{ label: 'size', stroke: colour('weak'), width: 1, dash: [2, 4], points: { show: false } }] : []),
  ]
  const axis = { size: 70, stroke: colour('weak'), grid: { stroke: colour('line'), width: 1 }, ticks: { stroke: colour('line') } }
  const day = { month: 'short', day: 'numeric' }, hour = { hour: '2-digit', minute: '2-digit', hour12: false }
  const clock = (_u, ticks, _axis, _space, step) => ticks.map(t => new Date(t * 1000).toLocaleString([], step < 86400 ? hour : day))
  const data = [times, [...past.map(p => p[1]), null], [...gaps, used, grows > 0 ? then : null], ...(near ? [times.map(() => size)] : [])]
  return new uPlot({ width: Math.min(900, innerWidth - 60), height: 240, series, axes: [{ ...axis, size: 40, values: clock }, axis], scales: { y: { range: (_, _min, max) => [0, Math.max(1, max * 1.05)] } }, cursor: { drag: { x: false } } }, data, holder)
}

customElements.define('clusterip-ranges', Ranges)
