// A table of thousands of rows that can be searched, filtered and sorted, of which only the visible ones are in the page. It is ARIA's grid: one stop of
// Tab, and the arrows go from cell to cell (keys.js).
//
// New data changes cells whose text has changed, and nothing else: focus, selection and place stay.
import { emptyCell, fill, gap } from './cells.js'
import { Details } from './details.js'
import { h, patch } from './dom.js'
import { keep } from './keep.js'
import { move } from './keys.js'
import { haystack, sorted, tester, words } from './order.js'
import { tools } from './tools.js'
import { gaps, offset, reveal, visible } from './window.js'

const idle = globalThis.requestIdleCallback ?? setTimeout // Safari has none

export class Grid {
  // name is that of the place where search, filters, order and the open row are kept while another view is open; columns and filters are as in order.js;
  // key(row) is what a row is known by. attributes(row) are those of its element. detail(row, old) makes or updates what is below an open row.
  constructor({ name, caption, columns, key, filters = [], attributes = () => ({}), detail, empty = 'none' }) {
    Object.assign(this, { name, caption, columns, key, filters, attributes, detail, empty })
    this.state = keep(name, () => ({ search: '', filters: {}, sort: -1, descending: false, open: null, cursor: { key: null, column: 0 }, top: 0 }))
    this.rows = []
    this.drawn = new Map() // by key: {tr, texts} of the rows in the page
    this.height = 34
    this.details = detail && new Details(detail, columns.length, () => this.detailsMeasured())
    this.build()
  }

  build() {
    this.columnHeads = this.columns.map((c, i) => h('th', { role: 'columnheader', scope: 'col', class: c.number ? 'number' : null },
      h('button', { type: 'button', tabindex: -1, onclick: () => this.sortBy(i) }, c.title)))
    this.body = h('tbody', { role: 'rowgroup' })
    const cols = this.columns.map(c => {
      const col = h('col', {})
      if (c.width) col.style.width = c.width + 'em'
      return col
    })
    this.table = h('table', { role: 'grid', 'aria-label': this.caption, 'aria-colcount': this.columns.length, onkeydown: e => this.keydown(e), onclick: e => this.click(e), onfocusin: e => this.focused(e) },
      h('colgroup', {}, cols), h('thead', { role: 'rowgroup' }, h('tr', { role: 'row', 'aria-rowindex': 1 }, this.columnHeads)), this.body)
    this.table.style.minWidth = this.columns.reduce((sum, c) => sum + (c.width ?? 12), 0) + 'em'
    this.scroller = h('div', { class: 'rows', onscroll: () => this.scrolled() }, this.table)
    this.nothing = h('p', { class: 'empty', hidden: true })
    this.tools = tools(this)
    this.element = h('div', { class: 'grid ' + this.name }, this.tools.element, this.scroller, this.nothing)
    this.sizes = new ResizeObserver(() => this.resized())
    this.sizes.observe(this.scroller)
  }

  destroy() { this.sizes.disconnect() }

  // update shows other rows. Keys that come twice are told apart.
  update(rows) {
    const seen = new Map()
    this.rows = rows
    this.keys = new Map(rows.map(row => {
      const key = this.key(row), n = seen.get(key) ?? 0
      seen.set(key, n + 1)
      return [row, n === 0 ? key : `${key} #${n + 1}`]
    }))
    this.byKey = new Map([...this.keys].map(([row, key]) => [key, row]))
    this.haystacks = null
    idle(() => this.searchable())
    this.tools.update(rows)
    this.arrange()
  }

  // searchable are the texts of rows, for a search. They are made while the browser has nothing else to do, or for the first letter that is typed.
  searchable() {
    this.haystacks ??= this.rows.map(row => haystack(this.columns, row))
    return this.haystacks
  }

  // set changes what is filtered, from outside.
  set(filters) {
    this.state.filters = { ...filters }
    this.state.search = ''
    this.tools.show()
    this.rearrange()
  }

  // arrange decides which rows are shown in which order, and draws.
  arrange() {
    const { search, filters, sort, descending } = this.state
    const tests = this.filters.map(f => tester(f, filters[f.name], this.rows)).filter(Boolean), wanted = words(search)
    if (wanted.length > 0) {
      const texts = this.searchable()
      tests.push((row, i) => wanted.every(w => texts[i].includes(w)))
    }
    const some = tests.length === 0 ? this.rows : this.rows.filter((row, i) => tests.every(t => t(row, i)))
    this.shown = sort < 0 ? some : sorted(some, this.columns[sort], descending)
    this.tools.count(this.shown.length, this.rows.length)
    this.table.setAttribute('aria-rowcount', this.shown.length + 1)
    this.columnHeads.forEach((th, i) => {
      if (i === sort) th.setAttribute('aria-sort', descending ? 'descending' : 'ascending')
      else th.removeAttribute('aria-sort')
    })
    this.scroller.hidden = this.shown.length === 0
    this.nothing.hidden = this.shown.length > 0
    this.nothing.textContent = this.rows.length === 0 ? `${this.caption}: ${this.empty}.` : 'Nothing fits the search and the filters.'
    this.draw()
  }

  // sortBy goes round: ascending, descending, as the data comes.
  sortBy(i) {
    const s = this.state
    const turned = s.sort === i && s.descending, same = s.sort === i
    Object.assign(s, { sort: turned ? -1 : i, descending: same && !turned })
    this.rearrange()
  }

  // rearrange is for what the user has changed: the first rows are of interest.
  rearrange() {
    this.scroller.scrollTop = 0
    this.arrange()
  }

  // place is where a row is shown, -1 if it is not.
  place(key) { return this.shown?.indexOf(this.byKey.get(key)) ?? -1 }

  layout() { return { count: this.shown.length, height: this.height, open: this.place(this.state.open), details: this.details?.height ?? 0 } }

  // draw brings the page in line with what is visible. Rows that stay are not touched but for cells that changed.
  draw() {
    if (!this.shown || !this.element.isConnected) return
    this.cursor()
    const l = this.layout(), top = this.scroller.scrollTop
    const rows = visible(l, top, top + this.scroller.clientHeight, [l.open, this.place(this.state.cursor.key)])
    const heights = gaps(l, rows), kept = new Map(), parts = []
    this.spare = this.notNeeded(rows)
    rows.forEach((i, n) => {
      parts.push(gap(heights[n], this.columns.length), ...this.row(i, i === l.open, kept))
    })
    parts.push(gap(heights[rows.length], this.columns.length))
    if (l.open < 0) this.details?.close()
    this.drawn = kept
    const focus = this.body.contains(document.activeElement)
    patch(this.body, parts.filter(Boolean))
    this.rove()
    if (focus && !this.body.contains(document.activeElement)) this.target?.focus({ preventScroll: true }) // its row is gone
    this.measure()
  }

  // notNeeded are rows of the page that can show other data: to make elements takes longer than to change their texts.
  notNeeded(rows) {
    const keys = new Set(rows.map(i => this.keys.get(this.shown[i])))
    return [...this.drawn].filter(([key, one]) => !keys.has(key) && !one.tr.contains(document.activeElement)).map(([, one]) => one)
  }

  // row returns the elements of a row, those that are there already if possible.
  row(i, open, kept) {
    const row = this.shown[i], key = this.keys.get(row), texts = this.columns.map(c => String(c.text(row) ?? ''))
    const one = this.drawn.get(key) ?? this.spare.pop() ?? { tr: h('tr', { class: 'row', role: 'row' }, this.columns.map((c, n) => emptyCell(c, n, n === 0 && this.detail))), texts: [] }
    kept.set(key, one)
    one.tr.dataset.row = key
    one.tr.setAttribute('aria-rowindex', i + 2)
    for (const [name, value] of Object.entries(this.attributes(row))) one.tr.setAttribute(name, value)
    this.columns.forEach((c, n) => {
      if (one.texts[n] !== texts[n]) fill(one.tr.cells[n], c, row, texts[n], n === 0 && this.detail)
    })
    one.texts = texts
    if (!this.detail) return [one.tr]
    one.tr.classList.toggle('open', open)
    const button = one.tr.cells[0].firstChild
    button.dataset.key = key
    button.setAttribute('aria-expanded', String(open))
    return open ? [one.tr, this.details.of(row, key)] : [one.tr]
  }

  // toggle opens a row, or closes it.
  toggle(key) {
    this.state.open = this.state.open === key ? null : key
    this.opening = this.state.open !== null
    this.details.close()
    this.draw()
  }

  // detailsMeasured makes room for details of another height, and shows those that the user has just opened.
  detailsMeasured() {
    this.draw()
    if (!this.opening) return
    this.opening = false
    this.reveal(this.place(this.state.open))
  }

  // opened is the row that is open, undefined without one.
  opened() { return this.shown?.[this.place(this.state.open)] }

  // repaint draws everything anew, in the colours of another theme.
  repaint() {
    const focus = this.body.contains(document.activeElement)
    for (const one of this.drawn.values()) one.texts = []
    this.details?.repaint(this.opened())
    this.draw()
    if (focus) this.focus()
  }

  measure() {
    const height = this.body.querySelector('tr.row')?.getBoundingClientRect().height
    if (!height || Math.abs(height - this.height) < 0.5) return
    this.height = height
    this.draw()
  }

  resized() {
    const narrow = this.table.tHead.offsetHeight === 0
    if (narrow !== this.narrow) this.state.cursor.column = 0 // another one may be away now
    this.narrow = narrow
    if (!this.placed && this.shown?.length > 0 && this.scroller.clientHeight > 0) {
      this.placed = true
      this.scroller.scrollTop = this.state.top
    }
    this.draw()
  }

  scrolled() {
    this.state.top = this.scroller.scrollTop
    this.frame ??= requestAnimationFrame(() => {
      this.frame = null
      this.draw()
    })
  }

  // cursor has the place of the keyboard be at a row that is there: key null is the head.
  cursor() {
    const at = this.state.cursor
    if (at.key !== null ? this.place(at.key) < 0 : this.narrow || !this.touched) at.key = this.shown.length > 0 ? this.keys.get(this.shown[0]) : null
  }

  cell() {
    const { key, column } = this.state.cursor
    return key === null ? this.columnHeads[column] : this.drawn.get(key)?.tr.cells[column]
  }

  focusOf(cell) { return cell.querySelector('button, a') ?? cell }

  // rove lets Tab come to one cell.
  rove() {
    const cell = this.cell(), target = cell && this.focusOf(cell)
    if (this.target === target) return
    if (this.target) this.target.tabIndex = -1
    if (target) target.tabIndex = 0
    this.target = target
  }

  // focus puts the focus where the cursor is, and scrolls there.
  focus() {
    const i = this.place(this.state.cursor.key)
    if (i >= 0) this.reveal(i)
    this.draw()
    this.target?.focus({ preventScroll: true })
  }

  // reveal scrolls as little as needed for a row to be seen, with its details.
  reveal(i) {
    const l = this.layout()
    this.scroller.scrollTop = reveal(this.scroller.scrollTop, this.scroller.clientHeight - this.table.tHead.offsetHeight, offset(l, i), offset(l, i + 1))
  }

  focused(e) {
    const cell = e.target.closest('th, td'), tr = cell?.closest('tr')
    if (!tr || tr.classList.contains('details')) return
    this.touched = true
    this.state.cursor = { key: tr.dataset.row ?? null, column: cell.cellIndex }
    this.rove()
  }

  keydown(e) {
    if (e.key === 'Escape' && this.state.open !== null) {
      this.state.cursor = { key: this.state.open, column: 0 }
      this.toggle(this.state.open)
      this.focus()
      e.stopPropagation()
      return
    }
    if (e.target.closest('tr.details') || e.altKey || e.metaKey) return
    const at = this.state.cursor
    if ((e.key === 'Enter' || e.key === ' ') && e.target.matches('td') && this.detail && at.key !== null) this.toggle(at.key)
    else {
      const page = Math.max(1, Math.floor(this.scroller.clientHeight / this.height) - 2), columns = this.seenColumns()
      const to = move(e, { row: this.place(at.key), column: columns.indexOf(at.column), rows: this.shown.length, columns: columns.length, page, head: !this.narrow })
      if (!to) return
      this.state.cursor = { key: to.row < 0 ? null : this.keys.get(this.shown[to.row]), column: columns[to.column] }
      this.touched = true
      this.focus()
    }
    e.preventDefault()
  }

  // seenColumns are those that a narrow window has, too.
  seenColumns() {
    return [...this.body.querySelector('tr.row').cells].flatMap((cell, i) => cell.offsetWidth > 0 ? [i] : [])
  }

  // click opens a row wherever it is clicked, but for links and where text was selected.
  click(e) {
    const tr = e.target.closest('tr.row')
    if (!tr || !this.detail || e.target.closest('a') || getSelection().toString() !== '' && !e.target.closest('button')) return
    this.toggle(tr.dataset.row)
  }
}
