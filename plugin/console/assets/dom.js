// What the views make elements with. Text of the cluster only ever becomes text nodes: nothing is parsed as HTML.

// h makes an element. Properties that begin with "on" are listeners, null and false leave an attribute out.
export function h(tag, properties, ...children) {
  const e = document.createElement(tag)
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (name.startsWith('on')) e.addEventListener(name.slice(2), value)
    else if (value === true) e.setAttribute(name, '')
    else if (value !== null && value !== undefined && value !== false) e.setAttribute(name, value)
  }
  e.append(...children.flat().filter(c => c !== null && c !== undefined && c !== false))
  return e
}

// show replaces what is in an element. What had the focus has it again, found by its data-key: a page that follows a cluster must not lose the place of
// somebody who uses the keyboard.
export function show(root, ...children) {
  const active = root.contains(document.activeElement) ? document.activeElement : null
  const key = active?.dataset.key
  const selection = active instanceof HTMLInputElement ? [active.value, active.selectionStart, active.selectionEnd] : null
  root.replaceChildren(...children.flat().filter(c => c !== null && c !== undefined && c !== false))
  if (!key) return
  const again = root.querySelector(`[data-key="${CSS.escape(key)}"]`)
  again?.focus({ preventScroll: true })
  if (again && selection) {
    again.value = selection[0]
    again.setSelectionRange(selection[1], selection[2])
  }
}

// patch brings the children of an element in line with a list. The one that has the focus stays where it is, and others are put around it: an element that
// is moved loses the focus.
export function patch(root, children) {
  const wanted = new Set(children)
  for (const child of [...root.children]) if (!wanted.has(child)) child.remove()
  const fixed = children.findIndex(child => child.contains(document.activeElement))
  place(root, children.slice(0, Math.max(0, fixed)), root.firstChild)
  place(root, children.slice(fixed + 1), fixed < 0 ? root.firstChild : children[fixed].nextSibling)
}

// place puts children in front of a place. Those that are there stay.
function place(root, children, at) {
  for (const child of children) {
    if (child === at) at = at.nextSibling
    else root.insertBefore(child, at)
  }
}

// facts makes a list of names and what they are; a fact without anything is left out.
export function facts(...all) {
  return h('dl', {}, all.filter(([, value]) => value !== undefined && value !== null && value !== '' && value !== false).map(([name, value]) => h('div', {}, h('dt', {}, name), h('dd', {}, value))))
}

// verdict says a text in the colour of what is well, or of what is not.
export const verdict = (well, text) => h('span', { class: well ? 'good' : 'bad' }, text)

// table makes a table of columns {title, cell(row), number} and rows; attributes(row) are those of a row.
export function table(caption, columns, rows, attributes = () => ({})) {
  if (rows.length === 0) return h('p', { class: 'empty' }, caption, ': none.')
  const side = c => c.number ? 'number' : null
  return h('div', { class: 'scroll' }, h('table', {},
    h('caption', {}, caption),
    h('thead', {}, h('tr', {}, columns.map(c => h('th', { scope: 'col', class: side(c) }, c.title)))),
    h('tbody', {}, rows.map(row => h('tr', attributes(row), columns.map(c => h('td', { class: side(c) }, c.cell(row) ?? '')))))))
}

// colour reads a colour of the style sheet, as the present theme has it. Asking the browser is slow, and a map takes ten.
const colours = new Map()
export function colour(name) {
  if (!colours.has(name)) {
    const probe = h('span', {})
    probe.style.color = `var(--${name})`
    document.body.append(probe)
    colours.set(name, getComputedStyle(probe).color)
    probe.remove()
  }
  return colours.get(name)
}

// forgetColours is for another theme.
export const forgetColours = () => colours.clear()

// count writes a number as the command does: what is larger than a number can be is a power of two.
export function count(n) {
  return n > 1e15 ? '2^' + Math.round(Math.log2(n)) : String(Math.round(n))
}

// span writes a time in seconds in its largest unit or two, as kubectl writes ages.
export function span(seconds) {
  const s = Math.max(0, Math.round(seconds))
  if (s < 120) return s + 's'
  if (s < 3 * 3600) return Math.floor(s / 60) + 'm'
  if (s < 48 * 3600) return Math.floor(s / 3600) + 'h'
  if (s < 2 * 365 * 86400) return Math.floor(s / 86400) + 'd'
  return Math.floor(s / 365 / 86400) + 'y'
}

// age is how long ago a time was: one of the API, or a number of milliseconds.
export function age(time) {
  return span((Date.now() - new Date(time)) / 1000)
}
