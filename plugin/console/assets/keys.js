// Where the keys of ARIA's grid lead. A pure function.

const clamp = (n, low, high) => Math.max(low, Math.min(high, n))

// move returns the cell that a key leads to from another one, undefined if the key is none of a grid's. Row -1 is the head, where head says that there is one.
export function move(key, { row, column, rows, columns, page, head }) {
  const to = (r, c) => ({ row: clamp(r, head ? -1 : 0, rows - 1), column: clamp(c, 0, columns - 1) })
  switch (key.key) {
    case 'ArrowUp': return to(row - 1, column)
    case 'ArrowDown': return to(row + 1, column)
    case 'ArrowLeft': return to(row, column - 1)
    case 'ArrowRight': return to(row, column + 1)
    case 'PageUp': return to(Math.max(0, row - page), column)
    case 'PageDown': return to(row + page, column)
    case 'Home': return key.ctrlKey ? to(0, 0) : to(row, 0)
    case 'End': return key.ctrlKey ? to(rows - 1, columns - 1) : to(row, columns - 1)
  }
}
