//go:build linux

package nftables

import (
	"cmp"
	"iter"
	"maps"
	"net/netip"
	"time"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// Tables is what the kernel should have for one family, and which part of it is not written yet. It
// is a pure function of the Plan, and of the indexes that endpoints had before. An Apply costs what
// the Delta touches. Not for concurrent use.
type Tables struct {
	globals  model.Globals
	ports    map[model.PortName]*model.ServicePort // shared with the Plan, and never changed
	withheld map[model.PortName]*model.ServicePort // as they should be; ports has them as if they had no endpoint

	wanted map[key]int                           // members of sets that several ports may want, by how many do
	used   map[set]int                           // how many different members of a set are wanted
	routes map[route]int                         // chains that elements lead to, by how many
	sticky map[string]struct{}                   // digests of ports with session affinity
	fronts map[netip.Addr]map[stickyFront]string // chains that remember clients, by virtual IP

	spreads map[model.ServiceName]map[model.PortName]int // elements that ports take because of schedulers and weights, of those that do
	plain   map[model.ServiceName]struct{}               // Services for which that is too much
	lacking map[model.PortName][]model.DegradationReason // what ports do without

	size    int               // elements
	prints  map[bucket]uint64 // the sums of the fingerprints of all elements
	changed map[key]change    // differ from the kernel

	chains  map[string]chainID // that exist because of ports
	pending states             // chains that differ from the kernel, whatever the layout
	maps    states             // maps of clients that do
	written *layout            // of the chains in the kernel; nil: not known
	touched map[netip.Addr]map[stickyFront]string
}

// change is one element that may differ from the kernel.
type change struct {
	there, wanted bool      // the kernel has it; it should
	was, value    string    // with these values
	left          time.Time // since when nothing leads to what is to be taken away: see leave
}

// chainID says what a chain is for: a route, remembering its clients for some seconds, or the ports of a virtual IP with session affinity.
type chainID struct {
	route   route
	seconds int
	vip     netip.Addr
}

// state is whether the kernel has a chain or map, and as it should be.
type state struct{ there, right bool }

// states has those that may differ from the kernel.
type states map[string]state

func (s states) comes(name string) {
	if before := s[name]; before.there && before.right {
		delete(s, name)
	} else {
		s[name] = before
	}
}

func (s states) goes(name string) {
	before, marked := s[name]
	switch {
	case !marked:
		s[name] = state{true, true}
	case !before.there:
		delete(s, name)
	}
}

// NewTables returns Tables that want nothing.
func NewTables(f model.Family) *Tables {
	return &Tables{
		globals: model.Globals{Family: f}, ports: map[model.PortName]*model.ServicePort{}, withheld: map[model.PortName]*model.ServicePort{},
		wanted: map[key]int{}, used: map[set]int{}, routes: map[route]int{}, sticky: map[string]struct{}{}, fronts: map[netip.Addr]map[stickyFront]string{},
		spreads: map[model.ServiceName]map[model.PortName]int{}, plain: map[model.ServiceName]struct{}{}, lacking: map[model.PortName][]model.DegradationReason{},
		prints: map[bucket]uint64{}, changed: map[key]change{},
		chains: map[string]chainID{}, pending: states{}, maps: states{}, touched: map[netip.Addr]map[stickyFront]string{},
	}
}

// all are all elements that the kernel should have, with their values. Nothing keeps them: they follow from the ports.
func (t *Tables) all() iter.Seq2[key, string] {
	return func(yield func(key, string) bool) {
		for _, p := range t.ports {
			c := contribution(p, t.isPlain(p))
			for r, endpoints := range c.runs {
				for i, e := range endpoints {
					c.values[r.key(i)] = destination(e)
				}
			}
			for k, value := range c.values {
				if !yield(k, value) {
					return
				}
			}
		}
		for k := range t.wanted {
			if !yield(k, "") {
				return
			}
		}
		for r := range t.routes {
			if !r.own() && !yield(r.key(), r.name()) {
				return
			}
		}
		for vip := range t.fronts {
			if !yield(key{set: sticky, of: addr(vip)}, rememberAt(vip)) {
				return
			}
		}
	}
}

// Apply takes a Delta in. Ports that were withheld are not any more.
func (t *Tables) Apply(d model.Delta) {
	if d.Globals != nil {
		t.globals = *d.Globals
	}
	changed, turned := t.spend(d.Ports)
	// All are removed before any is added, because an address or a node port may move from one to another.
	before, gone, come := map[model.PortName]*model.ServicePort{}, map[run][]netip.AddrPort{}, map[run][]netip.AddrPort{}
	for name := range changed {
		if old := t.ports[name]; old != nil {
			maps.Copy(gone, t.put(old, false))
			delete(t.ports, name)
			before[name] = old
		}
	}
	for name := range d.Ports {
		delete(t.withheld, name)
	}
	for name, plain := range turned {
		if delete(t.plain, name); plain {
			t.plain[name] = struct{}{}
		}
	}
	for name, p := range changed {
		if p != nil {
			t.ports[name] = inPlace(before[name], p)
			maps.Copy(come, t.put(t.ports[name], true))
		}
	}
	for r, endpoints := range come {
		t.replace(r, gone[r], endpoints)
		delete(gone, r)
	}
	for r, endpoints := range gone {
		t.replace(r, endpoints, nil)
	}
	for a, present := range d.Allocated {
		t.count(key{set: allocated, of: addr(a)}, present)
	}
}

// withhold has the clients of ports refused, as if they had no endpoint.
func (t *Tables) withhold(names ...model.PortName) {
	for _, name := range names {
		wanted := cmp.Or(t.withheld[name], t.ports[name])
		t.Apply(model.Delta{Ports: map[model.PortName]*model.ServicePort{name: wanted.Unserved()}})
		t.withheld[name] = wanted
	}
}

// release ends that.
func (t *Tables) release(names ...model.PortName) {
	for _, name := range names {
		t.Apply(model.Delta{Ports: map[model.PortName]*model.ServicePort{name: t.withheld[name]}})
	}
}

// replace marks the endpoints of a front that are others than before.
func (t *Tables) replace(r run, before, after []netip.AddrPort) {
	for i := range max(len(before), len(after)) {
		if i < len(before) && i < len(after) && before[i] == after[i] {
			continue
		}
		if i < len(before) {
			t.mark(r.key(i), destination(before[i]), false)
		}
		if i < len(after) {
			t.mark(r.key(i), destination(after[i]), true)
		}
	}
}

// put adds what a port adds, or removes it, except its endpoints, which it returns.
func (t *Tables) put(p *model.ServicePort, present bool) map[run][]netip.AddrPort {
	c := contribution(p, t.isPlain(p))
	delete(t.lacking, p.Name)
	if reasons := lacking(p, t.isPlain(p)); present && reasons != nil {
		t.lacking[p.Name] = reasons
	}
	for k, value := range c.values {
		t.mark(k, value, present)
	}
	for k := range c.members {
		t.count(k, present)
	}
	for r := range c.routes {
		before := t.routes[r]
		if t.routes[r] += sign(present); t.routes[r] == 0 {
			delete(t.routes, r)
		}
		if before == 0 || !present && before == 1 {
			t.chain(r.name(), chainID{route: r}, present)
			if !r.own() {
				t.mark(r.key(), r.name(), present)
			}
		}
		if r.sticky != "" && !r.through {
			t.chain(rememberName(r, p.AffinitySeconds), chainID{route: r, seconds: p.AffinitySeconds}, present)
		}
	}
	if p.AffinitySeconds == 0 {
		return c.runs
	}
	d := model.Digest(p.Name.String())
	for _, name := range clientMaps(d) {
		if present {
			t.maps.comes(name)
		} else {
			t.maps.goes(name)
		}
	}
	if delete(t.sticky, d); present {
		t.sticky[d] = struct{}{}
	}
	for vip, r := range c.sticky {
		t.stick(vip, stickyFront{p.Name.Protocol, p.Port}, rememberName(r, p.AffinitySeconds), present)
	}
	return c.runs
}

// chain notes that a chain comes or goes.
func (t *Tables) chain(name string, id chainID, comes bool) {
	_, there := t.chains[name]
	switch {
	case there == comes: // two fronts of a port share a chain that remembers
	case comes:
		t.chains[name] = id
		t.pending.comes(name)
	default:
		delete(t.chains, name)
		t.pending.goes(name)
	}
}

// stickyFront is a port with session affinity of a virtual IP.
type stickyFront struct {
	protocol model.Protocol
	port     uint16
}

// stick notes that clients of a front are remembered. The chain of a virtual IP tells its ports apart: nft cannot read back rules in which the original port of a connection is one
// part of a key.
func (t *Tables) stick(vip netip.Addr, f stickyFront, chain string, present bool) {
	all := t.fronts[vip]
	if _, known := t.touched[vip]; !known {
		t.touched[vip] = maps.Clone(all)
	}
	if all == nil {
		all = map[stickyFront]string{}
		t.fronts[vip] = all
	}
	before := len(all)
	if delete(all, f); present {
		all[f] = chain
	}
	if len(all) == 0 {
		delete(t.fronts, vip)
	}
	if (before > 0) != (len(all) > 0) {
		t.mark(key{set: sticky, of: addr(vip)}, rememberAt(vip), present)
		t.chain(rememberAt(vip), chainID{vip: vip}, present)
	}
}

// count counts the ports that want a member of a set.
func (t *Tables) count(k key, more bool) {
	before := t.wanted[k]
	if t.wanted[k] += sign(more); t.wanted[k] == 0 {
		delete(t.wanted, k)
	}
	if before == 0 || !more && before == 1 {
		t.used[k.set] += sign(more)
		t.mark(k, "", more)
	}
}

// mark notes that an element comes or goes. What goes and comes again with the same value is none of the changes.
func (t *Tables) mark(k key, value string, comes bool) {
	c, marked := t.changed[k]
	if !marked && !comes {
		c.there, c.was = true, value
	}
	if c.wanted, c.value = comes, ""; comes {
		c.value = value
	}
	if t.changed[k] = c; c.there == c.wanted && c.was == c.value {
		delete(t.changed, k)
	}
	t.size += sign(comes)
	t.prints[k.bucket()] += uint64(sign(comes)) * print(k.of, k.to, value)
}

func sign(more bool) int {
	if more {
		return 1
	}
	return -1
}
