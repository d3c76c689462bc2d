package iptables

import (
	"encoding/binary"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/ipset"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// table is a table of iptables.
type table string

const (
	nat    table = "nat"
	filter table = "filter"
)

var tables = []table{nat, filter}

// chain is a chain of ours.
type chain struct {
	table table
	name  string
}

// Ruleset is what the kernel should have for one family, and which part of it is not written yet. It is a pure function of
// the Plan, whatever the history: Apply of any sequence of Deltas leads to the same chains and members as one Apply of their sum.
// Cost of Apply: what the Delta touches. Not for concurrent use.
type Ruleset struct {
	family  model.Family
	globals model.Globals
	ports   map[model.PortName]model.ServicePort

	vips      *tree
	nodePorts map[model.Protocol]*tree
	atVIP     map[netip.Addr]map[model.PortName][]string // rules for a virtual IP, by port

	chains map[chain][]string
	dirty  map[chain]struct{} // differ from the kernel; those that are not in chains are deleted
	total  map[string]int     // rules in chains, by table

	members  map[setName]map[Entry]int // how many ports want an entry
	changed  map[setName]map[Entry]struct{}
	affinity map[string]struct{} // sets of clients
	newSets  map[string]struct{} // of those, not yet made
	oldSets  map[string]struct{} // not needed any more, not yet taken away
}

// NewRuleset returns a Ruleset that wants nothing.
func NewRuleset(f model.Family) *Ruleset {
	r := &Ruleset{
		family: f, ports: map[model.PortName]model.ServicePort{},
		nodePorts: map[model.Protocol]*tree{}, atVIP: map[netip.Addr]map[model.PortName][]string{},
		chains: map[chain][]string{}, dirty: map[chain]struct{}{}, total: map[string]int{},
		members: map[setName]map[Entry]int{}, changed: map[setName]map[Entry]struct{}{},
		affinity: map[string]struct{}{}, newSets: map[string]struct{}{}, oldSets: map[string]struct{}{},
	}
	for _, s := range setKinds {
		r.members[s.name] = map[Entry]int{}
		r.changed[s.name] = map[Entry]struct{}{}
	}
	r.vips = newTree(f.Bits(), treeChain, matchVIP)
	return r
}

func matchVIP(key string, bits int) string {
	a, _ := netip.AddrFromSlice([]byte(key))
	return "-d " + netip.PrefixFrom(a, bits).String()
}

// Apply takes a Delta in.
func (r *Ruleset) Apply(d model.Delta) {
	next := d.Ports
	if d.Globals != nil { // every port may depend on them
		next = make(map[model.PortName]*model.ServicePort, len(r.ports))
		for name, p := range r.ports {
			next[name] = &p
		}
		maps.Copy(next, d.Ports)
	}
	c := portChange{vips: map[netip.Addr]struct{}{}, chains: map[string][]string{}}
	// All are removed before any is added, because an address or a node port may move from one to another.
	for name := range next {
		if old, there := r.ports[name]; there {
			r.put(old, false, c)
			delete(r.ports, name)
		}
	}
	if d.Globals != nil {
		r.globals = *d.Globals
	}
	for name, p := range next {
		if p != nil {
			r.ports[name] = r.affordable(*p)
			r.put(r.ports[name], true, c)
		}
	}
	for a, allocated := range d.Allocated {
		r.countEntry(setAllocated, Entry{Addr: a}, allocated)
	}
	r.emit(c)
}

// portChange is what changing ports touches: virtual IPs, and chains with the rules that they shall have, none for those to go.
type portChange struct {
	vips   map[netip.Addr]struct{}
	chains map[string][]string
}

// put adds what a port adds to the rules, or removes it.
func (r *Ruleset) put(p model.ServicePort, present bool, c portChange) {
	rules := renderPort(r.globals, p)
	for name, bodies := range rules.chains {
		if c.chains[name] = nil; present {
			c.chains[name] = bodies
		}
	}
	for vip, bodies := range rules.vips {
		c.vips[vip] = struct{}{}
		if r.atVIP[vip] == nil {
			r.atVIP[vip] = map[model.PortName][]string{}
		}
		if delete(r.atVIP[vip], p.Name); present {
			r.atVIP[vip][p.Name] = bodies
		}
	}
	if rules.nodePort != nil {
		bodies := rules.nodePort
		if !present {
			bodies = nil
		}
		r.nodePortTree(p.Name.Protocol).Set(portKey(p.NodePort), bodies)
	}
	for _, m := range rules.members {
		r.countEntry(m.set, m.entry, present)
	}
	for _, s := range rules.affinity {
		r.wantSet(s, present)
	}
}

// The kernel has 65,534 sets in all, and each takes 8 KiB at least. Session affinity costs one for each endpoint, so whoever may make
// EndpointSlices could use them up, and then nothing would be programmed any more.
const (
	mostAffinityEndpoints = 1000  // of one port
	mostAffinitySets      = 16384 // of a family
)

// affordable returns the port as it can be served: without session affinity where that would take too many sets. Only here,
// beyond the limit, the history matters: ports that came first have affinity, later ones get it with their next change.
func (r *Ruleset) affordable(p model.ServicePort) model.ServicePort {
	n := len(p.Cluster) + len(p.Local)
	if p.AffinitySeconds > 0 && (n > mostAffinityEndpoints || len(r.affinity)+n > mostAffinitySets) {
		p.AffinitySeconds = 0
	}
	return p
}

func (r *Ruleset) nodePortTree(p model.Protocol) *tree {
	if r.nodePorts[p] == nil {
		r.nodePorts[p] = newTree(16,
			func(key string, bits int) string { return nodePortChain(p, key, bits) },
			func(key string, bits int) string { return matchPorts(p, key, bits) })
	}
	return r.nodePorts[p]
}

func portKey(port uint16) string { return string(binary.BigEndian.AppendUint16(nil, port)) }

func matchPorts(p model.Protocol, key string, bits int) string {
	first := binary.BigEndian.Uint16([]byte(key))
	last := first | (1<<(16-bits) - 1)
	return fmt.Sprintf("-p %s --dport %d:%d", lower(p), first, last)
}

// emit brings the chains up to date: those of the ports that changed, those of the trees, and those that exist always.
func (r *Ruleset) emit(c portChange) {
	for name, rules := range c.chains {
		r.set(chain{nat, name}, rules)
	}
	for vip := range c.vips {
		var rules []string
		for _, name := range slices.SortedFunc(maps.Keys(r.atVIP[vip]), model.PortName.Compare) {
			rules = append(rules, r.atVIP[vip][name]...)
		}
		if rules == nil {
			delete(r.atVIP, vip)
		}
		r.vips.Set(string(vip.AsSlice()), rules)
	}
	r.emitTree(r.vips)
	for p, t := range r.nodePorts {
		r.emitTree(t)
		if t.Len() == 0 {
			r.set(chain{nat, nodePortChain(p, "", 0)}, nil)
			delete(r.nodePorts, p)
		}
	}
	f := facts{nodePorts: map[model.Protocol]bool{}, firewalled: len(r.members[setFirewalled]) > 0, health: len(r.members[setHealth]) > 0}
	for p := range r.nodePorts {
		f.nodePorts[p] = true
	}
	for c, rules := range staticChains(r.globals, f) {
		r.setAlways(c, rules)
	}
}

func (r *Ruleset) emitTree(t *tree) {
	t.Emit(
		func(name string, rules []string) { r.setAlways(chain{nat, name}, rules) },
		func(name string) { r.set(chain{nat, name}, nil) })
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

// countEntry counts the ports that want an entry.
func (r *Ruleset) countEntry(s setName, e Entry, more bool) {
	m := r.members[s]
	before := m[e]
	switch {
	case more:
		m[e]++
	case before > 1:
		m[e]--
	default:
		delete(m, e)
	}
	if (m[e] > 0) == (before > 0) {
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
	if delete(r.affinity, name); wanted {
		r.affinity[name] = struct{}{}
	} else {
		known, pending = pending, known
	}
	if _, back := known[name]; back {
		delete(known, name)
		return
	}
	pending[name] = struct{}{}
}

// affinityKind describes a set of clients. Rules say how long an entry stays; the time-out of the set itself only has to exist.
func affinityKind(f model.Family, name string) ipset.Set {
	return ipset.Set{Name: name, Type: ipset.HashIP, Family: f, Timeout: 10800}
}
