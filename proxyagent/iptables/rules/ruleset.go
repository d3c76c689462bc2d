package rules

import (
	"maps"
	"net/netip"
	"slices"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/ipset"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// Table is a table of iptables.
type Table string

const (
	nat    Table = "nat"
	filter Table = "filter"
)

// Tables are those that our rules are in.
var Tables = []Table{nat, filter}

type chain struct {
	table Table
	name  string
}

// Ruleset is what the kernel should have for one family, and which part of it is not written yet.
// It is a pure function of the Plan: any sequence of Deltas leads to the same chains and members as
// one Apply of their sum. Apply costs what the Delta touches. Not for concurrent use.
//
// NewSets, Members, Transaction and OldSets tell what is not written yet, in the order in which it
// has to be written; each has a method that notes that it is done.
type Ruleset struct {
	family  model.Family
	globals model.Globals
	ports   map[model.PortName]*model.ServicePort        // shared with the Plan, and never changed
	without map[model.PortName][]model.DegradationReason // what ports do without

	vips      *lookup
	nodePorts *lookup

	chains map[chain][]string
	dirty  map[chain]struct{} // differ from the kernel; those that are not in chains are deleted
	total  map[string]int     // rules in chains, by table

	members  map[setName]map[ipset.Entry]int // how many ports want an entry
	changed  map[setName]map[ipset.Entry]struct{}
	affinity map[string]struct{} // sets of clients
	shares   map[string]int      // of them, by namespace
	newSets  map[string]struct{} // of those, not yet made
	oldSets  map[string]struct{} // not needed, not yet taken away

	insert, unhook []jump  // of built-in chains: to be inserted, and to be deleted
	unreadable     []Table // when the kernel was compared last
}

// NewRuleset returns a Ruleset that wants nothing.
func NewRuleset(f model.Family) *Ruleset {
	r := &Ruleset{
		family: f, ports: map[model.PortName]*model.ServicePort{}, without: map[model.PortName][]model.DegradationReason{},
		vips: newLookup(chainVIPs, Prefix+"T-", f.Bits()), nodePorts: newLookup(chainNodePorts, Prefix+"N-", 0),
		chains: map[chain][]string{}, dirty: map[chain]struct{}{}, total: map[string]int{},
		members: map[setName]map[ipset.Entry]int{}, changed: map[setName]map[ipset.Entry]struct{}{},
		affinity: map[string]struct{}{}, shares: map[string]int{}, newSets: map[string]struct{}{}, oldSets: map[string]struct{}{},
	}
	for _, s := range setKinds {
		r.members[s.name] = map[ipset.Entry]int{}
		r.changed[s.name] = map[ipset.Entry]struct{}{}
	}
	return r
}

// Total returns for each table how many rules of ours it should have.
func (r *Ruleset) Total() map[string]int { return maps.Clone(r.total) }

// Apply takes a Delta in. Whatever scheduler a port asks for, its endpoints are chosen at random.
func (r *Ruleset) Apply(d model.Delta) {
	next := d.Ports
	if d.Globals != nil && portGlobalsOf(*d.Globals) != portGlobalsOf(r.globals) {
		next = maps.Clone(r.ports)
		maps.Copy(next, d.Ports)
	}
	c := portChange{chains: map[string][]string{}, vips: map[string][]string{}, nodePorts: map[string][]string{}}
	for name := range d.Ports {
		delete(r.without, name)
	}
	// All are removed before any is added: an address or a node port may move from one to another.
	for name := range next {
		if old, there := r.ports[name]; there {
			r.put(old, false, c)
			delete(r.ports, name)
		}
	}
	if d.Globals != nil {
		r.globals = *d.Globals
	}
	for _, name := range slices.SortedFunc(maps.Keys(next), model.PortName.Compare) {
		if p := next[name]; p != nil {
			r.ports[name] = r.affordable(p)
			r.put(r.ports[name], true, c)
			if _, changed := d.Ports[name]; changed && !model.IPTables.Has(p.Scheduler) {
				r.without[name] = append(r.without[name], model.SchedulerUnavailable)
			}
		}
	}
	for a, allocated := range d.Allocated {
		r.countEntry(setAllocated, ipset.Entry{Addr: a}, allocated)
	}
	r.emit(c)
}

// portChange is new rules of chains and lookup keys, by name, after ports changed; none: remove it.
type portChange struct {
	chains, vips, nodePorts map[string][]string
}

// put adds what a port adds to the rules, or removes it.
func (r *Ruleset) put(p *model.ServicePort, present bool, c portChange) {
	rules := renderPort(portGlobalsOf(r.globals), *p)
	change := func(all map[string][]string, key string, rules []string) {
		if !present {
			rules = nil
		}
		all[key] = rules
	}
	for name, bodies := range rules.chains {
		change(c.chains, name, bodies)
	}
	for vip, bodies := range rules.vips {
		change(c.vips, lookupKey(vip, p.Name.Protocol, p.Port), bodies)
	}
	change(c.nodePorts, lookupKey(netip.Addr{}, p.Name.Protocol, p.NodePort), rules.nodePort)
	for _, m := range rules.members {
		r.countEntry(m.set, m.entry, present)
	}
	for _, s := range rules.affinity {
		r.wantSet(s, present)
	}
	model.Count(r.shares, p.Name.Service.Namespace, model.Sign(present)*len(rules.affinity))
}

// The kernel has 65,534 sets in all, of 8 KiB at least. Session affinity takes one per endpoint: a
// tenant that may make EndpointSlices could use all up, and then nothing would be programmed.
const (
	mostAffinityEndpoints = 1000  // of one port
	mostAffinitySets      = 16384 // of a family
)

// affordable returns the port as it can be served: without session affinity where that would take
// too many sets. A namespace may have as many as it leaves to other namespaces: alone half of all,
// a third where another one has as many. So no tenant takes affinity from the rest, however its
// Services are named. Only here, beyond the limit, the history matters: ports that came first have
// affinity, of those at once the first by name: so two agents that start anew choose the same.
func (r *Ruleset) affordable(p *model.ServicePort) *model.ServicePort {
	n := len(p.Cluster) + len(p.Local)
	left := mostAffinitySets - len(r.affinity) - n
	if p.AffinitySeconds == 0 || n <= mostAffinityEndpoints && r.shares[p.Name.Service.Namespace]+n <= left {
		return p
	}
	r.without[p.Name] = append(r.without[p.Name], model.AffinityTooDear)
	forgetful := *p
	forgetful.AffinitySeconds = 0
	return &forgetful
}

// emit updates the chains of the ports that changed, those that lead there, and the static ones.
func (r *Ruleset) emit(c portChange) {
	for name, rules := range c.chains {
		r.set(chain{nat, name}, rules)
	}
	for l, changed := range map[*lookup]map[string][]string{r.vips: c.vips, r.nodePorts: c.nodePorts} {
		for key, rules := range changed {
			l.Set(key, rules)
		}
		l.emit(
			func(name string, rules []string) { r.setAlways(chain{nat, name}, rules) },
			func(name string) { r.set(chain{nat, name}, nil) })
	}
	f := facts{nodePorts: r.nodePorts.top != nil, firewalled: len(r.members[setFirewalled]) > 0, health: len(r.members[setHealth]) > 0}
	for c, rules := range staticChains(r.globals, f) {
		r.setAlways(c, rules)
	}
}

// set gives a chain its rules; none takes it away.
func (r *Ruleset) set(c chain, rules []string) {
	if len(rules) == 0 {
		if old, there := r.chains[c]; there {
			r.total[string(c.table)] -= len(old)
			delete(r.chains, c)
			r.dirty[c] = struct{}{}
		}
		return
	}
	r.setAlways(c, rules)
}

// setAlways gives a chain its rules; it exists also with none.
func (r *Ruleset) setAlways(c chain, rules []string) {
	old, there := r.chains[c]
	if there && slices.Equal(old, rules) {
		return
	}
	r.total[string(c.table)] += len(rules) - len(old)
	r.chains[c] = rules
	r.dirty[c] = struct{}{}
}

func (r *Ruleset) countEntry(s setName, e ipset.Entry, more bool) {
	if !model.Count(r.members[s], e, model.Sign(more)) {
		return
	}
	if _, back := r.changed[s][e]; back {
		delete(r.changed[s], e) // as the kernel has it
		return
	}
	r.changed[s][e] = struct{}{}
}

// wantSet notes that a port wants a set of clients, or not any more.
func (r *Ruleset) wantSet(name string, wanted bool) {
	known, pending := r.oldSets, r.newSets // the kernel has an old set, with its clients, and not yet a new one
	model.Put(r.affinity, name, struct{}{}, wanted)
	if !wanted {
		known, pending = pending, known
	}
	if _, back := known[name]; back {
		delete(known, name)
		return
	}
	pending[name] = struct{}{}
}
