//go:build linux

package nftables

import (
	"iter"
	"maps"
	"net/netip"
	"time"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// Tables is what the kernel should have for one family, and what of it is not written yet: a pure
// function of the Plan and of the endpoints' former indexes. An Apply costs what the Delta touches.
// Not for concurrent use.
type Tables struct {
	globals model.Globals
	ports   map[model.PortName]*model.ServicePort // shared with the Plan, and never changed

	wanted map[key]int   // members of sets that several ports may want, by how many do
	used   map[set]int   // how many different members of a set are wanted
	routes map[route]int // chains that elements lead to, by how many

	spreads map[model.ServiceName]map[model.PortName]int // elements that ports take because of schedulers and weights, of those that do
	plain   map[model.ServiceName]struct{}               // Services for which that is too much
	lacking map[model.PortName][]model.DegradationReason // what ports do without

	affinity int               // ports with session affinity
	size     int               // elements
	prints   map[bucket]uint64 // the sums of the fingerprints of all elements
	changed  map[key]change    // differ from the kernel

	chains  map[string]route // that exist because of ports
	pending states           // chains that differ from the kernel, whatever the layout
	written *layout          // of the chains in the kernel; nil: not known
}

// change is one element that may differ from the kernel.
type change struct {
	there, wanted bool      // the kernel has it; it should
	was, value    string    // with these values
	left          time.Time // since when nothing leads to what is to be taken away: see leave
}

// state is whether the kernel has a chain, and as it should be.
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
		globals: model.Globals{Family: f}, ports: map[model.PortName]*model.ServicePort{},
		wanted: map[key]int{}, used: map[set]int{}, routes: map[route]int{},
		spreads: map[model.ServiceName]map[model.PortName]int{}, plain: map[model.ServiceName]struct{}{}, lacking: map[model.PortName][]model.DegradationReason{},
		prints: map[bucket]uint64{}, changed: map[key]change{}, chains: map[string]route{}, pending: states{},
	}
}

// all are all elements that the kernel should have, with values, derived from the ports each time.
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
			if !r.direct() && !yield(r.key(), r.name()) {
				return
			}
		}
	}
}

// Apply takes a Delta in.
func (t *Tables) Apply(d model.Delta) {
	if d.Globals != nil {
		t.globals = *d.Globals
	}
	changed, turned := t.spend(d.Ports)
	// All are removed before any is added: an address or node port may move from one to another.
	before, gone, come := map[model.PortName]*model.ServicePort{}, map[run][]netip.AddrPort{}, map[run][]netip.AddrPort{}
	for name := range changed {
		if old := t.ports[name]; old != nil {
			maps.Copy(gone, t.put(old, false))
			delete(t.ports, name)
			before[name] = old
		}
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

// replace marks the endpoints of a front that differ from those before.
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
		if model.Count(t.routes, r, model.Sign(present)) {
			t.chain(r, present)
			if !r.direct() {
				t.mark(r.key(), r.name(), present)
			}
		}
	}
	if p.AffinitySeconds > 0 {
		t.affinity += model.Sign(present)
	}
	return c.runs
}

// chain notes that a chain comes or goes.
func (t *Tables) chain(r route, comes bool) {
	name := r.name()
	if comes {
		t.chains[name] = r
		t.pending.comes(name)
	} else {
		delete(t.chains, name)
		t.pending.goes(name)
	}
}

// count counts the ports that want a member of a set.
func (t *Tables) count(k key, more bool) {
	if model.Count(t.wanted, k, model.Sign(more)) {
		t.used[k.set] += model.Sign(more)
		t.mark(k, "", more)
	}
}

// mark notes that an element comes or goes. One that goes and comes unchanged is no change.
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
	t.size += model.Sign(comes)
	t.prints[k.bucket()] += uint64(model.Sign(comes)) * print(k.of, value)
}
