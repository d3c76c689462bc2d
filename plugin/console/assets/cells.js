// The elements that a grid's rows are made of.
import { h } from './dom.js'

// gap stands for rows that are not in the page; null if it has no height.
export function gap(height, columns) {
  if (height <= 0) return null
  const cell = h('td', { role: 'presentation', colspan: columns })
  cell.style.height = height + 'px'
  return h('tr', { class: 'gap', role: 'presentation' }, cell)
}

// emptyCell is a cell of the nth column. The one that opens the row has a button.
export function emptyCell(c, n, opens) {
  const classes = [c.number ? 'number' : '', c.narrow ?? ''].join(' ').trim()
  return h(n === 0 ? 'th' : 'td', { role: n === 0 ? 'rowheader' : 'gridcell', scope: n === 0 ? 'row' : null, tabindex: -1, class: classes || null, 'data-title': c.title, 'aria-colindex': n + 1 },
    opens && h('button', { type: 'button', tabindex: -1, 'aria-expanded': 'false' }))
}

// fill has a cell show a row. The tip has the whole of a text, where that is cut; a bar has none.
export function fill(cell, c, row, text, opens) {
  if (opens) cell.firstChild.textContent = text
  else if (c.cell) cell.replaceChildren(c.cell(row) ?? '')
  else cell.textContent = text
  if (!opens && c.search !== false) cell.title = text
}
