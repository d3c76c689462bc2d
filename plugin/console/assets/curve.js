// The use of a range until now, and how it goes on.
import { colour, h } from './dom.js'
import { room, sum } from './usage.js'

class Curve extends HTMLElement {
  connectedCallback() {
    this.sizes = new ResizeObserver(() => this.resize())
    this.sizes.observe(this)
    this.draw()
    if (!this.points) this.dispatchEvent(new Event('ask', { bubbles: true })) // the frame knows which view has which question
  }

  disconnectedCallback() {
    this.sizes.disconnect()
    this.clear()
  }

  // clear: the library keeps plots that are not destroyed.
  clear() {
    this.plot?.destroy()
    this.plot = null
  }

  // show draws a range; points are those of its past, undefined as long as they are being asked for.
  show(range, points) {
    this.range = range
    this.points = points ?? this.points
    this.draw()
  }

  draw() {
    this.clear()
    if (!this.isConnected || !this.range) return
    if (!this.points || this.points.length < 2) {
      this.replaceChildren(h('p', { class: 'weak' }, this.points ? 'There is nothing to draw yet.' : 'Reading …'))
      return
    }
    const holder = h('div', { role: 'img', 'aria-label': `${this.points.at(-1)[1]} addresses are in use now` })
    this.replaceChildren(holder)
    this.plot = plot(this.range, this.points, holder, this.width())
  }

  width() { return Math.max(200, Math.min(900, this.clientWidth)) }

  resize() {
    if (this.plot && this.plot.width !== this.width()) this.plot.setSize({ width: this.width(), height: 220 })
  }
}

// plot draws until now, and the forecast at the present growth for as long again at most.
function plot(r, past, holder, width) {
  const most = room(r), [now, used] = past.at(-1), grows = sum(r, 'growthPerDay') / 86400
  const until = now + Math.max(60, Math.min(r.fullInSeconds ?? Infinity, now - past[0][0]))
  const then = Math.min(used + grows * (until - now), most)
  const times = [...past.map(p => p[0]), until]
  const gaps = past.slice(1).map(() => null)
  const near = Math.max(used, then) > most / 4 // a line far above would flatten the curve
  const series = [
    {},
    { label: 'in use', stroke: colour('allocated'), width: 2, paths: uPlot.paths.stepped({ align: 1 }), points: { show: false } },
    { label: 'forecast', stroke: colour('wrong'), width: 2, dash: [6, 5], points: { show: false } },
    ...(near ? [{ label: 'full', stroke: colour('weak'), width: 1, dash: [2, 4], points: { show: false } }] : []),
  ]
  const axis = { size: 60, stroke: colour('weak'), grid: { stroke: colour('line'), width: 1 }, ticks: { stroke: colour('line') } }
  const day = { month: 'short', day: 'numeric' }, hour = { hour: '2-digit', minute: '2-digit', hour12: false }, second = { ...hour, second: '2-digit' }
  const words = step => step < 60 ? second : step < 86400 ? hour : day
  const clock = (_u, ticks, _axis, _space, step) => ticks.map(t => new Date(t * 1000).toLocaleString([], words(step)))
  const whole = (_u, ticks) => ticks.map(t => Number.isInteger(t) ? t.toLocaleString('en') : '')
  const data = [times, [...past.map(p => p[1]), null], [...gaps, used, grows > 0 ? then : null], ...(near ? [times.map(() => most)] : [])]
  return new uPlot({
    width, height: 220, series, axes: [{ ...axis, size: 40, values: clock }, { ...axis, values: whole }],
    scales: { y: { range: (_, _min, max) => [0, Math.max(1, max * 1.05)] } }, cursor: { drag: { x: false } },
  }, data, holder)
}

customElements.define('clusterip-curve', Curve)
