// What is kept while the page is open, whichever view is shown.
const kept = new Map()

// keep returns what is kept under a name, at first what make returns.
export function keep(name, make) {
  if (!kept.has(name)) kept.set(name, make())
  return kept.get(name)
}
