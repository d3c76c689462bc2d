// Completes what is typed into the question, from what the command has read of the cluster: ARIA's combobox with a list.
import { h } from './dom.js'

// suggestions puts a list below an input; ask is called when a whole subject is chosen. left ends with the view.
export function suggestions(input, ask, left) {
  const list = h('ul', { id: 'suggestions', role: 'listbox', 'aria-label': 'Suggestions', hidden: true })
  let chosen = -1, asking = new AbortController() // of the last question: what is typed next takes it back
  for (const [name, value] of Object.entries({ role: 'combobox', 'aria-autocomplete': 'list', 'aria-controls': list.id, 'aria-expanded': 'false' })) input.setAttribute(name, value)

  // open shows what there is to choose from; without anything the list is closed.
  function open(all) {
    chosen = -1
    list.replaceChildren(...all.map((text, i) => h('li', { id: `suggestion-${i}`, role: 'option', 'aria-selected': 'false', onpointerdown: e => { e.preventDefault(); take(text) } }, text)))
    list.hidden = all.length === 0
    input.setAttribute('aria-expanded', String(!list.hidden))
    input.removeAttribute('aria-activedescendant')
  }

  // take writes a suggestion into the input. One that ends with a slash is the beginning of more.
  function take(text) {
    input.value = text
    if (text.endsWith('/')) look()
    else {
      close()
      ask()
    }
  }

  // close also takes back what is being asked.
  function close() {
    asking.abort()
    open([])
  }

  async function look() {
    asking.abort()
    asking = new AbortController()
    const signal = AbortSignal.any([asking.signal, left])
    const all = await fetch('api/suggestions?text=' + encodeURIComponent(input.value.slice(0, 512)), { signal }).then(r => r.ok ? r.json() : []).catch(() => [])
    if (!signal.aborted) open(all.length === 1 && all[0] === input.value.trim() ? [] : all)
  }

  // choose marks a suggestion. It takes back what is being asked: another list in the place of this one would have nothing chosen.
  function choose(i) {
    const n = list.children.length
    if (n === 0) return
    asking.abort()
    list.children[chosen]?.setAttribute('aria-selected', 'false')
    chosen = (i + n) % n
    const option = list.children[chosen]
    option.setAttribute('aria-selected', 'true')
    option.scrollIntoView({ block: 'nearest' })
    input.setAttribute('aria-activedescendant', option.id)
  }

  input.addEventListener('input', look)
  input.addEventListener('blur', close)
  input.addEventListener('keydown', e => {
    if (e.key === 'ArrowDown' && list.hidden) look()
    else if (e.key === 'ArrowDown') choose(chosen + 1)
    else if (e.key === 'ArrowUp' && !list.hidden) choose(chosen < 0 ? -1 : chosen - 1)
    else if (e.key === 'Enter' && chosen >= 0) take(list.children[chosen].textContent)
    else if (e.key === 'Enter') return close()
    else if (e.key === 'Escape' && !list.hidden) close()
    else return
    e.preventDefault()
  })
  return h('div', { class: 'complete' }, input, list)
}
