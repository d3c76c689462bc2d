// Which rows of a table are shown, and in which order. Pure functions: they touch no page.

// A column is {title, text(row), cell(row), sort(row), number, width, search, narrow}. text is what it says of a row, and by default what is shown, searched
// and sorted by. search: false leaves it out of what is searched, as what changes with time alone.

const textOf = (column, row) => String(column.text(row) ?? '')

// words are those of a search; a row has to have all of them.
export const words = text => text.toLowerCase().split(/\s+/).filter(w => w !== '')

// haystack is what a search looks through.
export const haystack = (columns, row) => columns.filter(c => c.search !== false).map(c => textOf(c, row)).join('\u0000').toLowerCase()

// tester returns the function that says whether a filter lets a row pass; undefined if all pass. A filter has values(row), what it looks at. One that is
// typed takes what has the text in it, and once a value is typed in full that one alone: shop is not eshop.
export function tester(filter, wanted, rows) {
  if (!wanted) return undefined
  const values = row => [].concat(filter.values(row) ?? [])
  const exact = row => values(row).includes(wanted)
  if (filter.options || rows.some(exact)) return exact
  return row => values(row).some(v => v.includes(wanted))
}

// sorted orders rows by a column: numbers, or text. descending turns it round, but what is undefined comes last. Rows that are equal stay in the order that
// they have.
export function sorted(rows, column, descending) {
  const keyed = rows.map(row => [column.sort ? column.sort(row) : textOf(column, row), row]), sign = descending ? -1 : 1
  keyed.sort(([a], [b]) => {
    if (a === b) return 0
    if (a === undefined) return 1
    if (b === undefined) return -1
    return a < b ? -sign : sign
  })
  return keyed.map(([, row]) => row)
}

// choices are the values that a filter has, for a list to choose from, no more than a user can look through.
export function choices(filter, rows, most = 500) {
  const all = new Set()
  for (const row of rows) for (const v of [].concat(filter.values(row) ?? [])) if (v && all.size < most) all.add(v)
  return [...all].sort()
}
