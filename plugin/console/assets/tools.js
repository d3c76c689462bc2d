// What is above a grid: search, filters, the order where there is no head to click, and how many rows there are.
import { h } from './dom.js'
import { choices } from './order.js'

// A filter is {name, label, values(row)} with a list of what is there to choose from while one types, or with options [[value, text]] a choice.
function control(grid, filter) {
  const changed = e => {
    grid.state.filters[filter.name] = e.target.value
    grid.onfilter?.(grid.state.filters)
    grid.rearrange()
  }
  if (filter.options) return h('select', { 'data-filter': filter.name, onchange: changed }, h('option', { value: '' }, 'all'), filter.options.map(([value, text]) => h('option', { value }, text)))
  return h('input', { 'data-filter': filter.name, list: `${grid.name}-${filter.name}`, autocomplete: 'off', spellcheck: 'false', placeholder: 'all', oninput: changed })
}

function sortSelect(grid) {
  const options = grid.columns.flatMap((c, i) => [[`${i} up`, c.title + ' ↑'], [`${i} down`, c.title + ' ↓']])
  return h('select', {
    onchange: e => {
      const [i, way] = e.target.value.split(' ')
      Object.assign(grid.state, { sort: Number(i), descending: way === 'down' })
      grid.rearrange()
    },
  }, h('option', { value: '-1' }, 'as it comes'), options.map(([value, text]) => h('option', { value }, text)))
}

// tools makes them. update(rows) offers other choices, show() says what the state has, count(n, of) how many rows are shown.
export function tools(grid) {
  const search = h('input', {
    type: 'search', 'data-search': true, autocomplete: 'off', spellcheck: 'false', 'aria-keyshortcuts': '/',
    oninput: e => { grid.state.search = e.target.value; grid.rearrange() },
  })
  const controls = grid.filters.map(f => [f, control(grid, f)])
  const lists = grid.filters.filter(f => !f.options).map(f => [f, h('datalist', { id: `${grid.name}-${f.name}` })])
  const counted = h('output', { role: 'status', class: 'weak' })
  const order = sortSelect(grid)
  const element = h('div', { class: 'tools', role: 'search' }, h('label', {}, 'Search ', search), controls.map(([f, c]) => h('label', {}, f.label + ' ', c)),
    h('label', { class: 'order' }, 'Order ', order), counted, lists.map(([, list]) => list))
  const show = () => {
    search.value = grid.state.search
    for (const [f, c] of controls) c.value = grid.state.filters[f.name] ?? ''
    order.value = grid.state.sort < 0 ? '-1' : `${grid.state.sort} ${grid.state.descending ? 'down' : 'up'}`
  }
  show()
  return {
    element, show,
    update(rows) {
      for (const [f, list] of lists) {
        const all = choices(f, rows), text = all.join('\n')
        if (list.offered === text) continue
        list.offered = text
        list.replaceChildren(...all.map(value => h('option', { value })))
      }
    },
    count(n, of) {
      const text = n === of ? `${of}` : `${n} of ${of}`
      if (counted.value !== text) counted.value = text // it is read aloud when it changes
      order.value = grid.state.sort < 0 ? '-1' : `${grid.state.sort} ${grid.state.descending ? 'down' : 'up'}`
    },
  }
}
