// The arithmetic of a list of which only what is visible is in the page. Pure functions.
//
// All rows have one height, but for one that may be open: its details below it have another.

// A layout is {count, height, open, details}: open is the index of the open row or -1, details the height of what is below it.

// offset is where a row begins.
export const offset = (l, i) => i * l.height + (l.open >= 0 && i > l.open ? l.details : 0)

// whole is the height of all rows.
export const whole = l => offset(l, l.count)

// at is the row at a height.
export function at(l, y) {
  const rough = Math.floor(y / l.height)
  if (l.open < 0 || rough <= l.open) return rough
  return Math.max(l.open, Math.floor((y - l.details) / l.height))
}

// visible lists the rows between two heights, some before and after them, and those that have to be there in any case: the one with the focus must not
// disappear under the keyboard.
export function visible(l, top, bottom, always = [], spare = 8) {
  const first = Math.max(0, at(l, top) - spare), last = Math.min(l.count - 1, at(l, bottom) + spare)
  const all = new Set(always.filter(i => i >= 0 && i < l.count))
  for (let i = first; i <= last; i++) all.add(i)
  return [...all].sort((a, b) => a - b)
}

// gaps are the heights of what is left out before each of the rows, and after the last one.
export function gaps(l, rows) {
  let end = 0
  const before = rows.map(i => {
    const gap = offset(l, i) - end
    end = offset(l, i + 1)
    return gap
  })
  return [...before, whole(l) - end]
}

// reveal is where to scroll to, so that what lies between two heights can be seen. What is higher than the window is shown from its beginning.
export function reveal(top, height, begin, end) {
  if (begin >= top && end <= top + height) return top
  return begin < top ? begin : Math.min(begin, end - height)
}
