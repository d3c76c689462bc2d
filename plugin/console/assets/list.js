// A view that is one grid.
import { h } from './dom.js'
import { Grid } from './grid.js'

// A list has the static fields title, source and grid (options of Grid), and rows(data), what its grid shows. What stands behind its name in the address
// are filters: #addresses/range=team&namespace=shop
export class List extends HTMLElement {
  update(data) {
    if (!this.grid) this.start()
    this.grid.update(this.rows(data))
  }

  rows(data) { return data }

  start() {
    this.grid = new Grid({ ...this.constructor.grid, name: this.localName.replace('clusterip-', '') })
    this.grid.onfilter = filters => {
      const set = new URLSearchParams(Object.entries(filters).filter(([, value]) => value)).toString()
      history.replaceState(null, '', '#' + this.grid.name + (set ? '/' + set : ''))
    }
    this.note = h('div', { class: 'note' })
    this.replaceChildren(h('h2', {}, this.constructor.title), this.note, this.grid.element)
    if (this.rest) Object.assign(this.grid.state, { filters: this.named(), search: '' })
    this.grid.tools.show()
  }

  // refilter is for an address that changes while the view is open.
  refilter() {
    if (this.grid && this.rest) this.grid.set(this.named())
  }

  // named are the filters of the address. What names no filter is left out, or it would be in every
  // address that onfilter writes.
  named() {
    const known = new Set(this.grid.filters.map(f => f.name))
    return Object.fromEntries([...new URLSearchParams(this.rest)].filter(([name]) => known.has(name)))
  }

  repaint() { this.grid?.repaint() }

  disconnectedCallback() { this.grid?.destroy() }
}

// link leads to another view. It is known by where it leads, so that it has the focus again when what is around it is made anew.
export const link = (to, text) => h('a', { href: '#' + to, 'data-key': '#' + to }, text)

// why is a link to the answer about a subject.
export const why = (subject, text = subject) => link('why/' + encodeURIComponent(subject), text)
