// What is wrong, and how it is mended.
import { facts, h, show } from './dom.js'
import { List, why } from './list.js'

// subject is what `why` can say more about.
const subject = i => /^(service|servicecidr|servicecidrpolicy)\//.test(i.object) ? i.object : i.address

function detail(i, old) {
  const out = old ?? h('section', { 'aria-label': i.check })
  show(out, h('p', {}, i.message), facts(['Object', i.object], ['Address', i.address], ['Repair', i.repair || 'only an admin can help']), subject(i) && h('p', { class: 'links' }, why(subject(i), 'Why')))
  return out
}

class Findings extends List {
  static title = 'Findings'
  static source = 'findings'
  static grid = {
    caption: 'Findings', empty: 'nothing is wrong', key: i => [i.check, i.object, i.address].join(' '), detail,
    columns: [
      { title: 'Check', text: i => i.check, width: 13 },
      { title: 'Object', text: i => i.object, width: 15, narrow: 'whole' },
      { title: 'Address', text: i => i.address, width: 10 },
      { title: 'Repair', text: i => i.repair, width: 6 },
      { title: 'What it means', text: i => i.message, width: 30, narrow: 'whole' },
    ],
    filters: [{ name: 'check', label: 'Check', values: i => i.check }, { name: 'repair', label: 'Repair', values: i => i.repair ? 'yes' : 'no', options: [['yes', 'by repair'], ['no', 'by an admin']] }],
  }

  rows(data) {
    show(this.note, data.items.some(i => i.repair) && [h('p', {}, 'Repairs are carried out from a report that you have read:'),
      h('pre', {}, 'kubectl clusterip check -o report.yaml\nkubectl clusterip repair --from report.yaml --dry-run')])
    return data.items
  }
}

customElements.define('clusterip-findings', Findings)
