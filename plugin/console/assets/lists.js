// Policies, findings, and how the operator is.
import { age, count, h, show, table } from './dom.js'

class Policies extends HTMLElement {
  static title = 'Policies'
  static source = 'policies'

  update(data) {
    const condition = (p, type) => p.status.conditions?.find(c => c.type === type)
    const yes = (p, type) => condition(p, type)?.status === 'True'
    show(this, h('h2', {}, 'Policies'), table('ServiceCIDRPolicies, the one that goes first at the top', [
      { title: 'Policy', cell: p => p.name },
      { title: 'Priority', number: true, cell: p => p.priority },
      { title: 'Namespaces', cell: p => p.namespaces },
      { title: 'Services', cell: p => p.services },
      { title: 'Ranges that it has', cell: p => (p.status.ranges ?? []).map(r => h('div', {}, `${r.cidr} (${r.serviceCIDR})`)) },
      { title: 'Lost', cell: p => yes(p, 'Conflicting') ? h('span', { class: 'bad' }, condition(p, 'Conflicting').message) : '' },
      { title: 'Exclusive', cell: p => p.exclusive ? 'yes' : 'no' },
      { title: 'When full', cell: p => p.onFull },
      { title: 'Free', number: true, cell: p => count(p.status.summary?.free ?? 0) },
      { title: 'Programmed', cell: p => yes(p, 'Programmed') ? h('span', { class: 'good' }, 'True') : h('span', { class: 'bad' }, condition(p, 'Programmed')?.message ?? 'not looked at yet') },
    ], data), table('Refused in their name', [
      { title: 'Service', cell: r => r.service },
      { title: 'Policy', cell: r => r.policy },
      { title: 'Times', number: true, cell: r => count(r.count ?? 1) },
      { title: 'Ago', number: true, cell: r => age(r.time) },
      { title: 'Why', cell: r => r.message },
    ], data.flatMap(p => (p.status.refusals ?? []).map(r => ({ ...r, policy: p.name })))))
  }
}

class Findings extends HTMLElement {
  static title = 'Findings'
  static source = 'findings'

  update(data) {
    const repairable = data.items.some(i => i.repair)
    show(this, h('h2', {}, 'Findings'), data.items.length === 0
      ? h('p', { class: 'good' }, 'Nothing is wrong.')
      : table(`${data.items.length} findings`, [
        { title: 'Check', cell: i => i.check },
        { title: 'Object', cell: i => i.object },
        { title: 'Address', cell: i => i.address },
        { title: 'Repair', cell: i => i.repair },
        { title: 'What it means', cell: i => i.message },
      ], data.items),
    repairable && h('p', {}, 'Repairs are carried out from a report that you have read:'),
    repairable && h('pre', {}, 'kubectl clusterip check -o report.yaml\nkubectl clusterip repair --from report.yaml --dry-run'))
  }
}

class Health extends HTMLElement {
  static title = 'Operator'
  static source = 'health'

  update(data) {
    show(this, h('h2', {}, 'Operator'), table('The parts of the installation', [
      { title: 'Part', cell: p => p.name },
      { title: 'Well', cell: p => p.well ? h('span', { class: 'good' }, 'yes') : h('span', { class: 'bad' }, 'no') },
      { title: 'Status', cell: p => p.text },
    ], data.parts), data.agents?.length > 0 && table('Agents', [
      { title: 'Node', cell: a => a.node },
      { title: 'Ready', cell: a => a.ready ? h('span', { class: 'good' }, 'yes') : h('span', { class: 'bad' }, 'no') },
      { title: 'Mode', cell: a => a.mode },
      { title: 'Last sync', number: true, cell: a => a.lastSync ? age(a.lastSync) + ' ago' : 'unknown' },
      { title: 'Image', cell: a => a.image },
      { title: 'Problem', cell: a => a.problem ? h('span', { class: 'bad' }, a.problem) : a.unknown },
    ], data.agents))
  }
}

customElements.define('clusterip-policies', Policies)
customElements.define('clusterip-findings', Findings)
customElements.define('clusterip-health', Health)
