// The address space, from a whole range down to single addresses.
import { colour, count, h, show } from './dom.js'
import { fill, paintBox, states } from './pattern.js'

// address writes the address of a number: the browser knows the short form of IPv6.
function address(n, is4) {
  if (is4) return [24n, 16n, 8n, 0n].map(bits => (n >> bits) & 255n).join('.')
  const groups = []
  for (let bits = 112n; bits >= 0n; bits -= 16n) groups.push(((n >> bits) & 65535n).toString(16))
  return new URL(`http://[${groups.join(':')}]/`).hostname.slice(1, -1)
}

const font = '11px ui-monospace, monospace'

class AddressMap extends HTMLElement {
  static title = 'Map'
  static path = rest => 'map?cidr=' + encodeURIComponent(rest)

  // cursor is the cell that the keyboard is at, while the part that is drawn stays the same. Then new data is painted, and nothing is made anew.
  update(data) {
    const anew = data.cidr !== this.data?.cidr, ranges = JSON.stringify(data.ranges)
    if (anew) {
      this.asking?.abort()
      this.cursor = 0
      this.answer = null
    }
    this.data = data
    this.is4 = !data.cidr.includes(':')
    this.first = BigInt(data.first)
    this.wrong = new Set(data.wrong)
    if (anew || this.ranges !== ranges) this.build()
    this.ranges = ranges
    this.fit()
  }

  build() {
    const { cidr } = this.data
    this.canvas = h('canvas', {
      class: 'map', tabindex: 0, role: 'application', 'data-key': 'map', 'aria-describedby': 'map-keys', 'aria-label': 'Map of ' + cidr,
      onkeydown: e => this.key(e), onpointerdown: e => { this.point(e); this.canvas.focus() }, ondblclick: () => this.zoom(),
    })
    this.holder = h('div', { class: 'holder' }, this.canvas)
    this.said = h('div', { class: 'said' }, this.answer)
    this.legendHolder = h('div', {}, this.legend())
    show(this, h('h2', {}, 'Map of ' + cidr), this.tools(), h('div', { class: 'bands' },
      h('div', { class: 'drawing' }, this.legendHolder, this.holder),
      h('div', {}, h('p', { id: 'map-keys', class: 'weak' }, h('kbd', {}, '← ↑ ↓ →'), ' move, ', h('kbd', {}, 'Enter'), ' looks closer, ', h('kbd', {}, 'Esc'), ' goes back'),
        h('div', { id: 'cell', role: 'status' }), this.said)))
    this.sizes?.disconnect()
    this.sizes = new ResizeObserver(() => this.fit())
    this.sizes.observe(this.holder)
  }

  disconnectedCallback() {
    this.sizes?.disconnect()
    this.asking?.abort()
  }

  repaint() {
    if (!this.data) return
    this.legendHolder.replaceChildren(this.legend())
    this.draw()
  }

  // fit chooses how many cells a row has, and how large they are. In front of each row stands its first address.
  fit() {
    const width = this.holder.clientWidth, cells = this.data.allocated.length
    if (width === 0) return
    this.columns = Math.min(width < 500 ? 32 : 64, 2 ** Math.ceil(Math.log2(cells) / 2))
    const c = this.canvas.getContext('2d')
    c.font = font
    this.margin = Math.ceil(Math.max(...[0, cells - 1].map(i => c.measureText(this.label(i - i % this.columns)).width))) + 10
    this.side = Math.max(6, Math.min(28, Math.floor((width - this.margin) / this.columns)))
    this.draw()
  }

  // label is the address of a row, or the end of one that is too long.
  label(i) {
    const text = this.at(i)
    return text.length > 18 ? '…' + text.slice(-15) : text
  }

  tools() {
    const choose = h('select', { 'data-key': 'range', onchange: e => { location.hash = 'map/' + e.target.value } },
      this.data.ranges.map(r => h('option', { value: r.cidr, selected: r.cidr === this.data.of }, `${r.serviceCIDR} ${r.cidr}`)))
    return h('div', { class: 'map-tools' }, h('label', {}, 'Range ', choose),
      this.path().length > 1 && h('nav', { 'aria-label': 'Part of the range' }, this.path().map(p => h('a', { href: '#map/' + p, 'data-key': p, 'aria-current': p === this.data.cidr ? 'true' : null }, p))))
  }

  // path are the parts from the range down to what is drawn.
  path() {
    const { cidr, of } = this.data
    if (this.trail?.[0] !== of) this.trail = [of]
    const at = this.trail.indexOf(cidr)
    this.trail = at < 0 ? [...this.trail, cidr] : this.trail.slice(0, at + 1)
    return this.trail
  }

  legend() {
    return h('ul', { class: 'legend' }, states.map(([state, text]) => {
      const sample = h('canvas', { width: 14, height: 14 })
      const c = sample.getContext('2d')
      fill(c, paintBox(c), state, 0, 0, 14, 14)
      return h('li', {}, sample, text)
    }), h('li', {}, 'A line stands before the dynamic band.'))
  }

  state(i) {
    if (this.wrong.has(i)) return 'wrong'
    for (const state of ['allocated', 'reserved', 'cooling']) if (this.data[state][i] > 0) return state
    return 'free'
  }

  draw() {
    const cells = this.data.allocated.length, rows = Math.ceil(cells / this.columns), side = this.side, sharp = devicePixelRatio
    const width = this.margin + this.columns * side, height = rows * side
    this.canvas.width = width * sharp
    this.canvas.height = height * sharp
    this.canvas.style.width = width + 'px'
    const c = this.canvas.getContext('2d'), box = paintBox(c), each = 2 ** this.data.bits, gap = side < 9 ? 0.5 : 1
    c.scale(sharp, sharp)
    c.fillStyle = colour('back')
    c.fillRect(0, 0, width, height)
    this.labels(c, rows)
    for (let i = 0; i < cells; i++) {
      const [x, y] = this.corner(i)
      fill(c, box, this.state(i), x + gap, y + gap, side - 2 * gap, side - 2 * gap, this.data.allocated[i] / each)
    }
    if (this.data.dynamic > 0) {
      const [x, y] = this.corner(this.data.dynamic)
      c.fillStyle = colour('text')
      c.fillRect(x - 1, y, 2, side)
    }
    const [x, y] = this.corner(this.cursor)
    c.strokeStyle = colour('text')
    c.lineWidth = 2
    c.strokeRect(x, y, side, side)
    const text = this.words(this.cursor), said = this.querySelector('#cell')
    if (said.textContent !== text) said.textContent = text
  }

  // labels writes the addresses of rows, of as many as there is room for.
  labels(c, rows) {
    const step = 2 ** Math.ceil(Math.log2(Math.max(1, 15 / this.side)))
    c.font = font
    c.fillStyle = colour('weak')
    c.textAlign = 'right'
    c.textBaseline = 'middle'
    for (let row = 0; row < rows; row += step) c.fillText(this.label(row * this.columns), this.margin - 7, Math.max(6, (row + 0.5) * this.side))
  }

  corner(i) { return [this.margin + i % this.columns * this.side, Math.floor(i / this.columns) * this.side] }

  at(i) { return address(this.first + (BigInt(i) << BigInt(this.data.bits)), this.is4) }

  cidr(i) { return `${this.at(i)}/${(this.is4 ? 32 : 128) - this.data.bits}` }

  words(i) {
    const d = this.data, each = 2 ** d.bits
    const note = this.wrong.has(i) ? '; something is wrong' : ''
    if (d.bits === 0) return `${this.at(i)}: ${d.allocated[i] ? 'allocated' : d.reserved[i] ? 'reserved' : d.cooling[i] ? 'cooling down' : 'not in use'}${note}`
    return `${this.cidr(i)}: ${d.allocated[i]} allocated, ${d.reserved[i]} reserved, ${d.cooling[i]} cooling down, of ${count(each)} addresses${note}`
  }

  move(to) {
    this.cursor = Math.max(0, Math.min(this.data.allocated.length - 1, to))
    this.draw()
  }

  key(e) {
    const steps = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -this.columns, ArrowDown: this.columns, Home: -Infinity, End: Infinity }
    if (e.key in steps) this.move(this.cursor + steps[e.key])
    else if (e.key === 'Enter') this.zoom()
    else if (e.key === 'Escape') this.back()
    else return
    e.preventDefault()
  }

  point(e) {
    const column = Math.floor((e.offsetX - this.margin) / this.side)
    this.move(Math.max(0, Math.min(this.columns - 1, column)) + Math.floor(e.offsetY / this.side) * this.columns)
  }

  // zoom draws the cell at the cursor, or asks who has the address. The next question takes back the last one.
  async zoom() {
    if (this.data.bits > 0) {
      location.hash = 'map/' + this.cidr(this.cursor)
      return
    }
    this.asking?.abort()
    this.asking = new AbortController()
    const { signal } = this.asking
    const answer = await fetch('api/why?subject=' + encodeURIComponent(this.at(this.cursor)), { signal }).then(r => r.json()).catch(e => ({ error: e.message }))
    if (signal.aborted) return // the user has gone on
    this.answer = h('pre', { tabindex: 0, 'data-key': 'answer' }, answer.text ?? answer.error)
    this.said.replaceChildren(this.answer)
  }

  back() {
    const trail = this.path()
    if (trail.length > 1) location.hash = 'map/' + trail.at(-2)
  }
}

customElements.define('clusterip-map', AddressMap)
