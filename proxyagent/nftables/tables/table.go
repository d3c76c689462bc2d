//go:build linux

package tables

import (
	"fmt"
	"iter"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// Table is what the kernel should have for one family, and what of it is not written yet: a pure
// function of the Plan and of the endpoints' former indexes. An Apply costs what the Delta touches.
// Not for concurrent use.
type Table struct {
	globals model.Globals
	ports   map[model.PortName]*model.ServicePort // shared with the Plan, and never changed

	wanted map[Key]int   // members of sets that several ports may want, by how many do
	used   map[Set]int   // how many different members of a set are wanted
	routes map[route]int // chains that elements lead to, by how many

	spreads map[model.ServiceName]map[model.PortName]int // elements that ports take because of schedulers and weights, of those that do
	plain   map[model.ServiceName]struct{}               // Services for which that is too much
	lacking map[model.PortName][]model.DegradationReason // what ports do without

	affinity int               // ports with session affinity
	size     int               // elements
	prints   map[Bucket]uint64 // the sums of the fingerprints of all elements
	changed  map[Key]Change    // differ from the kernel

	chains  map[string]route // that exist because of ports
	pending states           // chains that differ from the kernel, whatever the layout
	written *layout          // of the chains in the kernel; nil: not known
}

// Change is one element that may differ from the kernel.
type Change struct {
	There, Wanted bool      // whether the kernel has it, and whether it should
	Was, Value    string    // the value that the kernel has, and the one that it should have
	left          time.Time // since when nothing leads to what is to be taken away: see leave
}

// state is whether the kernel has a chain, and whether its rules are those wanted.
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

// NewTable returns a Table that wants nothing.
func NewTable(f model.Family) *Table {
	return &Table{
		globals: model.Globals{Family: f}, ports: map[model.PortName]*model.ServicePort{},
		wanted: map[Key]int{}, used: map[Set]int{}, routes: map[route]int{},
		spreads: map[model.ServiceName]map[model.PortName]int{}, plain: map[model.ServiceName]struct{}{}, lacking: map[model.PortName][]model.DegradationReason{},
		prints: map[Bucket]uint64{}, changed: map[Key]Change{}, chains: map[string]route{}, pending: states{},
	}
}

// All are all elements that the kernel should have, with values, derived from the ports each time.
func (t *Table) All() iter.Seq2[Key, string] {
	return func(yield func(Key, string) bool) {
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

// Ports are those that have elements. They must not be changed.
func (t *Table) Ports() map[model.PortName]*model.ServicePort { return t.ports }

// Globals are those of the Plan.
func (t *Table) Globals() model.Globals { return t.globals }

// Remembers reports whether ports have session affinity: it takes the sets that packets write into.
func (t *Table) Remembers() bool { return t.affinity > 0 }

// Total returns how many elements there are; false before a Transaction was written.
func (t *Table) Total() (elements int, written bool) { return t.size, t.written != nil }

// Degraded lists what ports do without, sorted by port.
func (t *Table) Degraded() (all []model.Degradation) {
	for name, reasons := range t.lacking {
		for _, r := range reasons {
			all = append(all, model.Degradation{Port: name, Reason: r})
		}
	}
	slices.SortFunc(all, model.Degradation.Compare)
	return all
}

// Describe lists the elements of a port, for an admin.
func (t *Table) Describe(n model.PortName) []string {
	port := t.ports[n]
	if port == nil {
		return nil
	}
	lines := []string{fmt.Sprintf("Elements of %s in nftables, table %s:", n, Name)}
	for _, reason := range t.lacking[n] {
		lines = append(lines, "  "+reason.String())
	}
	c, elements := contribution(port, t.isPlain(port)), []string{}
	if port.Scheduler != "" || len(port.Weights) > 0 {
		lines = append(lines, c.describe()...)
	}
	for k := range c.members {
		c.values[k] = ""
	}
	for r, endpoints := range c.runs {
		for i, e := range endpoints {
			if spreadCost(port) == 0 { // otherwise thousands, of which the spread says enough
				c.values[r.key(i)] = destination(e)
			}
		}
	}
	for k, value := range c.values {
		elements = append(elements, "  "+k.Describe(t.globals.Family, value))
	}
	return append(lines, slices.Sorted(slices.Values(elements))...)
}

// Apply takes a Delta in.
func (t *Table) Apply(d model.Delta) {
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
		model.Put(t.plain, name, struct{}{}, plain)
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
		t.count(Key{Set: allocated, Of: addr(a)}, present)
	}
}

// replace marks the endpoints of a front that differ from those before.
func (t *Table) replace(r run, before, after []netip.AddrPort) {
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
func (t *Table) put(p *model.ServicePort, present bool) map[run][]netip.AddrPort {
	c := contribution(p, t.isPlain(p))
	reasons := lacking(p, t.isPlain(p))
	model.Put(t.lacking, p.Name, reasons, present && reasons != nil)
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
func (t *Table) chain(r route, comes bool) {
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
func (t *Table) count(k Key, more bool) {
	if model.Count(t.wanted, k, model.Sign(more)) {
		t.used[k.Set] += model.Sign(more)
		t.mark(k, "", more)
	}
}

// mark notes that an element comes or goes. One that goes and comes unchanged is no change.
func (t *Table) mark(k Key, value string, comes bool) {
	c, marked := t.changed[k]
	if !marked && !comes {
		c.There, c.Was = true, value
	}
	c.Wanted, c.Value = comes, ""
	if comes {
		c.Value = value
	}
	model.Put(t.changed, k, c, c.There != c.Wanted || c.Was != c.Value)
	t.size += model.Sign(comes)
	t.prints[k.Bucket()] += uint64(model.Sign(comes)) * Print(k.Of, value)
}
