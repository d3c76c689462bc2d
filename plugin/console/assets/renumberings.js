// Services that are being moved to other addresses, and those whose former addresses are kept.
import { age, facts, h, show } from './dom.js'
import { List, why } from './list.js'

const held = r => r.held.map(a => a.address).join(', ')
const since = r => Math.max(...r.held.map(a => a.since ?? 0))
const meanings = {
  Waiting: 'It still has the address, which is held for it already: the command goes on, or has ended.',
  Between: 'It has no ClusterIP for the moment between two updates. If it stays so, the command has ended: run it again.',
  Moved: 'It has other addresses. The former ones go on being served until no client uses them; then `kubectl clusterip renumber run`, with its plan, gives them up.',
  Gone: 'It was deleted, and the operator lets go of its former addresses.',
}

function detail(r, old) {
  const out = old ?? h('section', { 'aria-label': r.service })
  show(out, h('p', {}, meanings[r.stage]), facts(...r.held.map(a => [a.address, a.since ? `kept for ${age(a.since * 1000)}` : 'held'])), h('p', { class: 'links' }, why('service/' + r.service, 'Why')))
  return out
}

class Renumberings extends List {
  static title = 'Renumbering'
  static source = 'renumberings'
  static grid = {
    caption: 'Services that are being renumbered, or whose former addresses are kept', key: r => r.service, detail,
    columns: [
      { title: 'Service', text: r => r.service, width: 16 },
      { title: 'Stage', text: r => r.stage, width: 7, narrow: 'beside' },
      { title: 'Has', text: r => r.now.join(', ') || 'none', width: 16, narrow: 'line' },
      { title: 'Held', text: held, width: 16, narrow: 'line' },
      { title: 'Kept for', number: true, text: r => since(r) > 0 ? age(since(r) * 1000) : '', sort: r => since(r) > 0 ? -since(r) : undefined, search: false, width: 6, narrow: 'line' },
    ],
    filters: [
      { name: 'namespace', label: 'Namespace', values: r => r.service.split('/')[0] },
      { name: 'stage', label: 'Stage', values: r => r.stage, options: Object.keys(meanings).map(s => [s, s]) },
    ],
  }
}

customElements.define('clusterip-renumberings', Renumberings)
