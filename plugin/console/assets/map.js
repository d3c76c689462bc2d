// The address space, from a whole range down to single addresses.
import { count, h, show } from './dom.js'
import { fill, paintBox, states } from './pattern.js'

// address writes the address of a number: the browser knows the short form of IPv6.
function address(n, is4) {
  if (is4) return [24n, 16n, 8n, 0n].map(bits => (n >> bits) & 255n).join('.')
  const groups = []
  for (let bits = 112n; bits >= 0n; bits -= 16n) groups.push(((n >> bits) & 65535n).toString(16))
  return new URL(`http://[${groups.join(':')}]/`).hostname.slice(1, -1)
}

class AddressMap extends HTMLElement {
  static title = 'Map'
  static path = rest => 'map?cidr=' + encodeURIComponent(rest)

  // cursor is the cell that the keyboard is at, while the part that is drawn stays the same.
  update(data) {
    if (data.cidr !== this.data?.cidr) {
      this.cursor = 0
      this.answer = null
    }
    this.data = data
    this.is4 = !data.cidr.includes(':')
    this.first = BigInt(data.first)
    this.wrong = new Set(data.wrong)
    this.columns = Math.min(64, 2 ** Math.ceil(Math.log2(data.allocated.length) / 2))
    const canvas = h('canvas', {
      class: 'map', tabindex: 0, role: 'application', 'data-key': 'map', 'aria-describedby': 'map-keys', 'aria-label': 'Map of ' + data.cidr,
      onkeydown: e => this.key(e), onpointerdown: e => { this.point(e); canvas.focus() }, ondblclick: () => this.zoom(),
    })
    show(this, h('h2', {}, 'Map of ' + data.cidr), this.tools(), h('div', { class: 'bands' },
      h('div', {}, this.legend(), canvas),
      h('div', {}, h('p', { id: 'map-keys', class: 'weak' }, h('kbd', {}, '← ↑ ↓ →'), ' move, ', h('kbd', {}, 'Enter'), ' looks closer, ', h('kbd', {}, 'Esc'), ' goes back'),
        h('div', { id: 'cell', role: 'status' }), this.answer)))
    this.canvas = canvas
    this.draw()
  }

  tools() {
    const choose = h('select', { 'data-key': 'range', onchange: e => { location.hash = 'map/' + e.target.value } },
      this.data.ranges.map(r => h('option', { value: r.cidr, selected: r.cidr === this.data.of }, `${r.serviceCIDR} ${r.cidr}`)))
    return h('div', { class: 'map-tools' }, h('label', {}, 'Range ', choose),
      h('nav', { 'aria-label': 'Part of the range' }, this.path().map(p => h('a', { href: '#map/' + p, 'data-key': p, 'aria-current': p === this.data.cidr ? 'true' : null }, p))))
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
    const cells = this.data.allocated.length, rows = Math.ceil(cells / this.columns), side = Math.max(10, Math.min(28, Math.floor(768 / this.columns)))
    this.side = side
    this.canvas.width = this.columns * side
    this.canvas.height = rows * side
    const c = this.canvas.getContext('2d'), box = paintBox(c), each = 2 ** this.data.bits
    c.fillStyle = box.back
    c.fillRect(0, 0, this.canvas.width, this.canvas.height)
    for (let i = 0; i < cells; i++) {
      const [x, y] = this.corner(i)
      fill(c, box, this.state(i), x + 1, y + 1, side - 2, side - 2, this.data.allocated[i] / each)
    }
    if (this.data.dynamic > 0) {
      const [x, y] = this.corner(this.data.dynamic)
      c.fillStyle = box.text
      c.fillRect(x - 1, y, 2, side)
    }
    const [x, y] = this.corner(this.cursor)
    c.strokeStyle = box.text
    c.lineWidth = 2
    c.strokeRect(x, y, side, side)
    this.querySelector('#cell').textContent = this.words(this.cursor)
  }

  corner(i) { return [i % this.columns * this.side, Math.floor(i / this.columns) * this.side] }

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
    const scale = this.canvas.width / this.canvas.clientWidth
    this.move(Math.floor(e.offsetX * scale / this.side) + Math.floor(e.offsetY * scale / this.side) * this.columns)
  }

  // zoom draws the cell at the cursor, or asks who has the address.
  async zoom() {
    if (this.data.bits > 0) {
      location.hash = 'map/' + this.cidr(this.cursor)
      return
    }
    const subject = this.at(this.cursor), cidr = this.data.cidr
    const answer = await fetch('api/why?subject=' + encodeURIComponent(subject)).then(r => r.json()).catch(e => ({ error: e.message }))
    if (this.data.cidr !== cidr) return // somebody has gone on
    this.answer = h('pre', { tabindex: 0, 'data-key': 'answer' }, answer.text ?? answer.error)
    this.update(this.data)
  }

  back() {
    const trail = this.path()
    if (trail.length > 1) location.hash = 'map/' + trail.at(-2)
  }
}

customElements.define('clusterip-map', AddressMap)
