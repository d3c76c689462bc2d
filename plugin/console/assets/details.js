// What is below the row of a grid that is open.
import { h } from './dom.js'

export class Details {
  // make(row, old) makes the content, or brings the old one in line with the row; resized is called when its height is another one.
  constructor(make, columns, resized) {
    Object.assign(this, { make, columns, resized })
    this.height = 0
    this.key = null
  }

  // of is the element for a row. The content is touched only if something of the row has changed.
  of(row, key) {
    const text = JSON.stringify(row)
    if (this.key !== key) this.open(row, key)
    else if (this.text !== text) this.make(row, this.content)
    this.text = text
    return this.tr
  }

  open(row, key) {
    this.close()
    this.key = key
    this.content = this.make(row)
    this.tr = h('tr', { class: 'details', role: 'row' }, h('td', { role: 'gridcell', colspan: this.columns }, h('div', { class: 'inner' }, this.content)))
    this.sizes = new ResizeObserver(() => this.measure())
    this.sizes.observe(this.tr)
  }

  measure() {
    const height = this.tr?.getBoundingClientRect().height ?? 0
    if (height === 0 || Math.abs(height - this.height) < 1) return
    this.height = height
    this.resized()
  }

  close() {
    this.sizes?.disconnect()
    this.key = this.tr = null
    this.height = 0
  }

  repaint(row) {
    if (this.tr && row) this.make(row, this.content)
  }
}
