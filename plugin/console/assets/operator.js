// How the operator is, and its agents.
import { age, h, show, table, verdict } from './dom.js'
import { List } from './list.js'

class Health extends List {
  static title = 'Operator'
  static source = 'health'
  static grid = {
    caption: 'Agents', empty: 'no node has one', key: a => a.node,
    columns: [
      { title: 'Node', text: a => a.node, width: 14 },
      { title: 'Ready', text: a => a.ready ? 'yes' : 'no', cell: a => verdict(a.ready, a.ready ? 'yes' : 'no'), width: 5 },
      { title: 'Mode', text: a => a.mode, width: 7 },
      { title: 'Last sync', number: true, text: a => a.lastSync ? age(a.lastSync) + ' ago' : 'unknown', sort: a => a.lastSync && -Date.parse(a.lastSync), search: false, width: 7 },
      { title: 'Image', text: a => a.image, width: 18, narrow: 'away' },
      { title: 'Problem', text: a => a.problem || a.unknown, cell: a => a.problem ? h('span', { class: 'bad' }, a.problem) : a.unknown, width: 18, narrow: 'whole' },
    ],
    filters: [{ name: 'ready', label: 'Ready', values: a => a.ready ? 'yes' : 'no', options: [['yes', 'yes'], ['no', 'no']] }],
  }

  rows(data) {
    const text = JSON.stringify([data.parts, data.agents?.length > 0])
    if (this.parts !== text) {
      show(this.note, [table('The parts of the installation', [
        { title: 'Part', cell: p => p.name },
        { title: 'Well', cell: p => verdict(p.well, p.well ? 'yes' : 'no') },
        { title: 'Status', cell: p => p.text },
      ], data.parts), data.agents?.length > 0 && h('h3', {}, 'Agents')])
    }
    this.parts = text
    this.grid.element.hidden = !(data.agents?.length > 0)
    return data.agents ?? []
  }
}

customElements.define('clusterip-health', Health)
