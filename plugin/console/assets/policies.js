// Policies, and what was refused in their name.
import { age, count, facts, h, show, verdict } from './dom.js'
import { link, List, why } from './list.js'

const condition = (p, type) => p.status.conditions?.find(c => c.type === type)
// status is that of a condition. The operator has not looked at a policy without conditions.
const status = (p, type) => condition(p, type)?.status ?? 'Unknown'
const told = (p, type) => verdict(status(p, type) === 'True', status(p, type))
const lost = p => status(p, 'Conflicting') === 'True' ? condition(p, 'Conflicting').message : ''
const ranges = p => (p.status.ranges ?? []).map(r => `${r.cidr} (${r.serviceCIDR})`)

function policyDetail(p, old) {
  const out = old ?? h('section', { 'aria-label': p.name })
  show(out, facts(['Ranges that it has', ranges(p).join(', ')], ['Namespaces', p.namespaces], ['Services', p.services]),
    (p.status.conditions ?? []).length === 0 && h('p', { class: 'bad' }, 'The operator has not looked at it yet.'),
    (p.status.conditions ?? []).map(c => h('p', {}, h('strong', {}, `${c.type} is ${c.status}`), ` for ${age(c.lastTransitionTime)}: ${c.message}`)),
    h('p', { class: 'links' }, link('refusals/policy=' + encodeURIComponent(p.name), `Refused in its name: ${refusalsOf(p).reduce((n, r) => n + r.times, 0)}`),
      link('ranges/policy=' + encodeURIComponent(p.name), 'Ranges'), why('policy/' + p.name, 'Why')))
  return out
}

class Policies extends List {
  static title = 'Policies'
  static source = 'policies'
  static grid = {
    caption: 'ServiceCIDRPolicies, the one that goes first at the top', key: p => p.name, detail: policyDetail,
    columns: [
      { title: 'Policy', text: p => p.name, width: 9 },
      { title: 'Ready', text: p => status(p, 'Ready'), cell: p => told(p, 'Ready'), width: 5, narrow: 'beside' },
      { title: 'Priority', number: true, text: p => p.priority, sort: p => p.priority, width: 4.5 },
      { title: 'Namespaces', text: p => p.namespaces, width: 8 },
      { title: 'Services', text: p => p.services, width: 6, narrow: 'away' },
      { title: 'Ranges that it has', text: p => ranges(p).join(', '), width: 10.5, narrow: 'away' },
      { title: 'Lost', text: lost, cell: p => h('span', { class: 'bad' }, lost(p)), width: 5.5, narrow: 'away' },
      { title: 'Exclusive', text: p => p.exclusive ? 'yes' : 'no', width: 5.5 },
      { title: 'Allocation', text: p => p.allocation, width: 6, narrow: 'away' },
      { title: 'When full', text: p => p.onFull, width: 5.5 },
      { title: 'Free', number: true, text: p => count(p.status.summary?.free ?? 0), sort: p => p.status.summary?.free ?? 0, width: 4.5 },
      { title: 'Reserved', number: true, text: p => count(p.status.summary?.reserved ?? 0), sort: p => p.status.summary?.reserved ?? 0, width: 5.5 },
      { title: 'Programmed', text: p => status(p, 'Programmed'), cell: p => told(p, 'Programmed'), width: 7, narrow: 'away' },
    ],
    filters: [{ name: 'only', label: 'Only', values: p => [p.exclusive && 'exclusive', (status(p, 'Ready') !== 'True' || lost(p)) && 'wrong', refusalsOf(p).length > 0 && 'refused'],
      options: [['exclusive', 'exclusive'], ['wrong', 'with something wrong'], ['refused', 'that refused Services']] }],
  }
}

const refusalsOf = p => (p.status.refusals ?? []).map(r => ({ ...r, policy: p.name, times: r.count ?? 1, namespace: r.service.split('/')[0] }))

function refusalDetail(r, old) {
  const out = old ?? h('section', { 'aria-label': 'Refused: ' + r.service })
  show(out, h('p', {}, r.message), facts(['Policy', r.policy], ['Times', count(r.times)], ['First', r.first && age(r.first) + ' ago'], ['Last', age(r.time) + ' ago']),
    r.times > 1 && h('p', { class: 'weak' }, 'The Service is the last of them: a policy counts by namespace and reason.'),
    h('p', { class: 'links' }, !r.service.endsWith('*') && why('service/' + r.service, 'Why this Service'), why('namespace/' + r.namespace, 'Why this namespace')))
  return out
}

class Refusals extends List {
  static title = 'Refused'
  static source = 'policies'
  static grid = {
    caption: 'Services that policies have refused, by namespace and reason', key: r => [r.policy, r.service, r.message].join(' '), detail: refusalDetail,
    columns: [
      { title: 'Service', text: r => r.service, width: 16 },
      { title: 'Policy', text: r => r.policy, width: 9 },
      { title: 'Times', number: true, text: r => count(r.times), sort: r => r.times, search: false, width: 5 },
      { title: 'Ago', number: true, text: r => age(r.time), sort: r => -Date.parse(r.time), search: false, width: 5 },
      { title: 'Why', text: r => r.message, width: 30, narrow: 'whole' },
    ],
    filters: [{ name: 'namespace', label: 'Namespace', values: r => r.namespace }, { name: 'policy', label: 'Policy', values: r => r.policy }],
  }

  rows(data) { return data.flatMap(refusalsOf).sort((a, b) => Date.parse(b.time) - Date.parse(a.time)) }
}

customElements.define('clusterip-policies', Policies)
customElements.define('clusterip-refusals', Refusals)
