package fronts

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// Memory is what the programs read, one of its writes after the other.
type Memory interface {
	// Grow makes room for so many slots and places, no fewer than before, and keeps what there is.
	// After an error all is as before.
	Grow(slots, places int) error
	// Write puts an endpoint of a front at a place, to which no slot leads.
	Write(place uint32, front, endpoint netip.AddrPort)
	// Lead has a slot lead to n places from base on, or with n 0 to none. It is one store.
	Lead(slot, base uint32, n int, inTurn bool)
	// Add has fronts found by their slots, which it makes count from zero. It returns those that could
	// not be added, if any, and why.
	Add(all []Entry) (failed []Entry, why error)
	// Remove has a front found no more. None that is not there is no error.
	Remove(front netip.AddrPort) error
	// Taken is how many connections a slot has led to an endpoint.
	Taken(slot uint32) uint64
}

// Entry is a front and its slot.
type Entry struct {
	Front netip.AddrPort
	Slot  uint32
}

// Limits are how much of the kernel's memory a Table may take.
type Limits struct{ Fronts, Places int }

// first is how many slots and places Memory has room for at first.
const first = 1024

// rest is how long what programs may still read is not used again.
const rest = time.Second

// Table knows what Memory has and what it should have. Each change costs what changes, and the
// endpoints of its fronts. Its methods are for one goroutine at a time.
type Table struct {
	limits   Limits
	turns    bool
	globals  model.Globals
	ports    map[model.PortName]*model.ServicePort
	withheld map[model.PortName]bool
	local    map[netip.Addr]bool          // addresses of the node
	past     map[model.ServiceName]uint64 // connections of fronts that have gone
	stale    bool                         // past may have Services that have gone, too

	want   map[netip.AddrPort]*target
	demand int // the places that want takes
	have   map[netip.AddrPort]*entry
	bySlot []*entry                // what have has, nil for other slots
	dirty  map[netip.AddrPort]bool // where want and have may differ
	over   bool                    // want was beyond the limits

	slots, places arena
	resting       []resting

	leading, led int // how many fronts lead anywhere, and to how many places
}

// entry is a front that Memory has.
type entry struct {
	*target // as it is now: without endpoints it leads to none
	slot    uint32
	base    uint32
	gone    bool // it could not be removed
}

// resting is a block that is not used again yet.
type resting struct {
	of    *arena
	base  uint32
	class int
	since time.Time
}

// NewTable returns a Table for an empty Memory. turns is false where programs cannot count.
func NewTable(l Limits, turns bool) *Table {
	return &Table{
		limits: l, turns: turns, ports: map[model.PortName]*model.ServicePort{}, withheld: map[model.PortName]bool{},
		past: map[model.ServiceName]uint64{}, want: map[netip.AddrPort]*target{}, have: map[netip.AddrPort]*entry{}, dirty: map[netip.AddrPort]bool{},
	}
}

// Apply takes a Delta in.
func (t *Table) Apply(d model.Delta) {
	names := slices.Collect(maps.Keys(d.Ports))
	if d.Globals != nil {
		anew := t.globals.MasqueradeAll != d.Globals.MasqueradeAll
		t.globals = *d.Globals
		if anew {
			names = slices.AppendSeq(names, maps.Keys(t.ports))
		}
	}
	t.decide(names, func() {
		for name, p := range d.Ports {
			model.Put(t.ports, name, p, p != nil)
			t.stale = t.stale || p == nil && t.past[name.Service] > 0
		}
	})
}

// Withhold leaves exactly these ports to rules, which refuse their clients.
func (t *Table) Withhold(ports map[model.PortName]bool) {
	if maps.Equal(ports, t.withheld) {
		return
	}
	names := slices.AppendSeq(slices.Collect(maps.Keys(ports)), maps.Keys(t.withheld))
	t.decide(names, func() { t.withheld = ports })
}

// SetLocal leaves virtual IPs to rules that an interface of the node has: a program there, such as
// a DNS cache, is to get the connections.
func (t *Table) SetLocal(addrs map[netip.Addr]bool) {
	if maps.Equal(addrs, t.local) {
		return
	}
	var names []model.PortName
	for name, p := range t.ports {
		if slices.ContainsFunc(p.ClusterIPs, func(a netip.Addr) bool { return addrs[a] != t.local[a] }) {
			names = append(names, name)
		}
	}
	t.decide(names, func() { t.local = addrs })
}

// decide takes up a change of ports. All are taken out before any is put in: a front may go from
// one to another.
func (t *Table) decide(names []model.PortName, change func()) {
	for _, name := range names {
		for _, f := range t.frontsOf(t.ports[name]) {
			if w := t.want[f]; w != nil && w.port == name {
				t.set(f, nil)
			}
		}
	}
	change()
	for _, name := range names {
		p := t.ports[name]
		if p == nil {
			continue
		}
		if w, _ := t.target(p); w != nil {
			for _, f := range t.frontsOf(p) {
				t.set(f, w)
			}
		}
	}
}

// target is what the fronts of a port lead to, or why not.
func (t *Table) target(p *model.ServicePort) (*target, string) {
	if t.withheld[p.Name] {
		return nil, "the kernel refuses rules of the port"
	}
	return targetOf(t.globals, p, t.turns)
}

// frontsOf are the fronts of a port that may be translated. Connections to former addresses are
// counted by connection tracking, until no client uses them.
func (t *Table) frontsOf(p *model.ServicePort) (all []netip.AddrPort) {
	if p == nil {
		return nil
	}
	for _, a := range p.ClusterIPs {
		if !model.Has(p.Former, a) && !t.local[a] {
			all = append(all, netip.AddrPortFrom(a, p.Port))
		}
	}
	return all
}

func (t *Table) set(f netip.AddrPort, w *target) {
	if before := t.want[f]; before != nil {
		t.demand -= places(before)
	}
	if w != nil {
		t.demand += places(w)
	}
	model.Put(t.want, f, w, w != nil)
	t.dirty[f] = true
}

// places is how many a front takes that leads to a target.
func places(w *target) int { return 1 << classOf(len(w.round)) }

// Reduce takes from Memory what goes: fronts that no port has, or another one than before, and
// endpoints that a front has no more. What it leaves, the rules before and after the change have,
// too. Where it cannot write what is left of a front, that leads to no endpoint until Extend.
func (t *Table) Reduce(m Memory, now time.Time) error {
	t.wake(now)
	var problems []error
	for f := range t.dirty {
		h, w := t.have[f], t.want[f]
		switch {
		case h == nil, h.target == w:
		case h.gone || w == nil || w.port != h.port:
			problems = append(problems, t.drop(m, f, now))
		default:
			stay := model.SetOf(w.round)
			round := slices.DeleteFunc(slices.Clone(h.round), func(e netip.AddrPort) bool { return !stay[e] })
			if len(round) < len(h.round) {
				problems = append(problems, t.lead(m, f, h, &target{port: h.port, round: round, inTurn: h.inTurn}, now))
			}
		}
	}
	return errors.Join(problems...)
}

// Extend gives Memory what it lacks. What it cannot is left to rules and tried again by the next
// one; the error says why. So is what is beyond the limits, which is no error: see Left.
func (t *Table) Extend(m Memory, now time.Time) error {
	chosen := t.chosen()
	var problems []error
	if t.over || chosen != nil {
		for f := range t.have {
			t.dirty[f] = true
			if chosen != nil && !chosen[f] {
				problems = append(problems, t.drop(m, f, now))
			}
		}
		for f := range t.want {
			t.dirty[f] = true
		}
	}
	t.over = chosen != nil
	problems = append(problems, t.fill(m, now, func(f netip.AddrPort) bool { return chosen == nil || chosen[f] }))
	return errors.Join(problems...)
}

// fill writes fronts that are dirty, and wanted and chosen. Those that it cannot write stay dirty.
func (t *Table) fill(m Memory, now time.Time, chosen func(netip.AddrPort) bool) error {
	var problems []error
	var fresh []Entry
	for f := range t.dirty {
		w, h := t.want[f], t.have[f]
		switch {
		case h != nil && h.gone, h != nil && (w == nil || w.port != h.port): // it could not be removed
			continue
		case w == nil, !chosen(f), h != nil && h.equal(w):
			delete(t.dirty, f)
			continue
		case h == nil:
			slot, err := t.take(m, &t.slots, 0)
			if err != nil {
				problems = append(problems, err)
				continue
			}
			h = &entry{target: &target{port: w.port}, slot: slot}
			fresh, t.have[f] = append(fresh, Entry{f, slot}), h
			t.bySlot = append(t.bySlot, make([]*entry, max(0, t.slots.size-len(t.bySlot)))...)
			t.bySlot[slot] = h
		}
		if err := t.lead(m, f, h, w, now); err != nil {
			problems = append(problems, err)
			continue
		}
		delete(t.dirty, f)
	}
	if len(t.dirty) == 0 {
		t.dirty = map[netip.AddrPort]bool{} // one that was once large takes long to walk
	}
	failed, err := m.Add(fresh)
	for _, e := range failed {
		t.dirty[e.Front] = true
		t.forget(m, e.Front, now)
	}
	return errors.Join(append(problems, err)...)
}

// lead writes a block for a front, and has its slot lead there; without endpoints, to none. If
// there is no room, the front leads to none.
func (t *Table) lead(m Memory, f netip.AddrPort, h *entry, to *target, now time.Time) error {
	var err error
	old, class := h.base, -1
	if len(h.round) > 0 {
		class = classOf(len(h.round))
	}
	base := uint32(0)
	if len(to.round) > 0 {
		base, err = t.take(m, &t.places, classOf(len(to.round)))
	}
	if err != nil {
		to = &target{port: to.port}
	}
	for i, e := range to.round {
		m.Write(base+uint32(i), f, e)
	}
	m.Lead(h.slot, base, len(to.round), to.inTurn)
	t.led += len(to.round) - len(h.round)
	t.leading += min(len(to.round), 1) - min(len(h.round), 1)
	h.target, h.base = to, base
	if class >= 0 {
		t.resting = append(t.resting, resting{&t.places, old, class, now})
	}
	return err
}

// drop takes a front away. From its first step on no connection is led anywhere.
func (t *Table) drop(m Memory, f netip.AddrPort, now time.Time) error {
	h := t.have[f]
	if err := t.lead(m, f, h, &target{port: h.port}, now); err != nil {
		return err
	}
	if err := m.Remove(f); err != nil {
		h.gone = true // its slot may still be found: it cannot be another front's
		return fmt.Errorf("removing the front %s: %w", f, err)
	}
	t.forget(m, f, now)
	return nil
}

// forget has the slot of a front rest, which is not to be found any more.
func (t *Table) forget(m Memory, f netip.AddrPort, now time.Time) {
	h := t.have[f]
	_ = t.lead(m, f, h, &target{port: h.port}, now) // to none: it needs no room
	if n := m.Taken(h.slot); n > 0 {
		t.past[h.port.Service] += n
		t.stale = true
	}
	t.resting = append(t.resting, resting{&t.slots, h.slot, 0, now})
	delete(t.have, f)
	t.bySlot[h.slot] = nil
}

// wake has blocks used again that have rested.
func (t *Table) wake(now time.Time) {
	n := 0
	for ; n < len(t.resting) && now.Sub(t.resting[n].since) >= rest; n++ {
		t.resting[n].of.give(t.resting[n].base, t.resting[n].class)
	}
	t.resting = slices.Delete(t.resting, 0, n)
}

// take returns a free block, for which Memory grows if it has to, to twice the limits at most: so
// much for what rests, and for gaps.
func (t *Table) take(m Memory, of *arena, class int) (uint32, error) {
	for {
		if base, ok := of.take(class); ok {
			return base, nil
		}
		most := 2 << classOf(t.limits.Places)
		if of == &t.slots {
			most = 2 << classOf(t.limits.Fronts)
		}
		size := max(of.sizeFor(of.size-of.used+1<<class), min(first, most))
		if size > most {
			return 0, fmt.Errorf("no room for %d more beside %d of %d", 1<<class, of.used, most)
		}
		slots, places := t.slots.size, t.places.size
		if of == &t.slots {
			slots = size
		} else {
			places = size
		}
		if err := m.Grow(slots, places); err != nil {
			return 0, err
		}
		of.grow(size)
	}
}

// chosen are the fronts that are within the limits, in the order of their addresses; nil for all.
func (t *Table) chosen() map[netip.AddrPort]bool {
	if len(t.want) <= t.limits.Fronts && t.demand <= t.limits.Places {
		return nil
	}
	in, sum := map[netip.AddrPort]bool{}, 0
	for _, f := range slices.SortedFunc(maps.Keys(t.want), netip.AddrPort.Compare) {
		sum += places(t.want[f])
		if len(in) == t.limits.Fronts || sum > t.limits.Places {
			break
		}
		in[f] = true
	}
	return in
}
