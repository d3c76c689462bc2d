package fronts

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
)

// memory is a model of the kernel's maps. It fails the test where a program could be led astray.
type memory struct {
	testing.TB
	slotOf map[netip.AddrPort]uint32
	slots  []word
	places []place
	may    func(front, endpoint netip.AddrPort) bool
	fails  func() bool
	writes int     // of places
	before *memory // as it was when the step began: a program may have read that
}

type word struct {
	base   uint32
	n      int
	inTurn bool
	taken  uint64
}

type place struct{ front, endpoint netip.AddrPort }

var errMemory = errors.New("no memory")

func newMemory(t testing.TB) *memory {
	return &memory{TB: t, slotOf: map[netip.AddrPort]uint32{}, may: func(_, _ netip.AddrPort) bool { return true }, fails: func() bool { return false }}
}

// begin is the moment from which on programs hold what they have read until end.
func (m *memory) begin() {
	m.before = &memory{slotOf: maps.Clone(m.slotOf), slots: slices.Clone(m.slots), places: slices.Clone(m.places)}
}

// end wants all that a program had read at the beginning to be as it was then.
func (m *memory) end() {
	m.Helper()
	for slot, w := range m.before.slots {
		for i := range w.n {
			if at := int(w.base) + i; m.places[at] != m.before.places[at] {
				m.Fatalf("place %d, to which slot %d led, was written in the same step: %v became %v", at, slot, m.before.places[at], m.places[at])
			}
		}
	}
	for f, slot := range m.before.slotOf {
		for g, now := range m.slotOf {
			if now == slot && f != g {
				m.Fatalf("slot %d of %s is that of %s in the same step", slot, f, g)
			}
		}
	}
}

func (m *memory) Grow(slots, places int) error {
	if m.fails() {
		return errMemory
	}
	if slots < len(m.slots) || places < len(m.places) {
		m.Fatalf("it shrinks from %d and %d to %d and %d", len(m.slots), len(m.places), slots, places)
	}
	m.slots = append(m.slots, make([]word, slots-len(m.slots))...)
	m.places = append(m.places, make([]place, places-len(m.places))...)
	return nil
}

func (m *memory) Write(at uint32, front, endpoint netip.AddrPort) {
	m.Helper()
	for slot, w := range m.slots {
		if at >= w.base && at < w.base+uint32(w.n) {
			m.Fatalf("place %d is written while slot %d leads there", at, slot)
		}
	}
	m.writes++
	m.places[at] = place{front, endpoint}
}

func (m *memory) Lead(slot, base uint32, n int, inTurn bool) {
	m.Helper()
	m.slots[slot] = word{base: base, n: n, inTurn: inTurn, taken: m.slots[slot].taken}
	for f, s := range m.slotOf {
		if s == slot {
			m.checkFront(f)
		}
	}
}

// checkFront wants a front to lead to endpoints that it may have now, in places of its own.
func (m *memory) checkFront(f netip.AddrPort) {
	m.Helper()
	w := m.slots[m.slotOf[f]]
	for i := range w.n {
		p := m.places[w.base+uint32(i)]
		if p.front != f {
			m.Fatalf("%s leads to place %d, which is of %s", f, w.base+uint32(i), p.front)
		}
		if !m.may(f, p.endpoint) {
			m.Fatalf("%s leads to %s, which it may not", f, p.endpoint)
		}
	}
}

func (m *memory) Add(all []Entry) (failed []Entry, why error) {
	m.Helper()
	for _, e := range all {
		if m.fails() {
			failed, why = append(failed, e), errMemory
			continue
		}
		for f, slot := range m.slotOf {
			if slot == e.Slot {
				m.Fatalf("%s gets slot %d of %s", e.Front, slot, f)
			}
		}
		m.slotOf[e.Front] = e.Slot
		m.slots[e.Slot].taken = 0
		m.checkFront(e.Front)
	}
	return failed, why
}

func (m *memory) Remove(f netip.AddrPort) error {
	if m.fails() {
		return errMemory
	}
	delete(m.slotOf, f)
	return nil
}

func (m *memory) Taken(slot uint32) uint64 { return m.slots[slot].taken }

// leads are the endpoints that each front may lead to.
func (m *memory) leads() map[netip.AddrPort]map[netip.AddrPort]bool {
	all := map[netip.AddrPort]map[netip.AddrPort]bool{}
	for f, slot := range m.slotOf {
		all[f] = map[netip.AddrPort]bool{}
		for i := range m.slots[slot].n {
			all[f][m.places[m.slots[slot].base+uint32(i)].endpoint] = true
		}
	}
	return all
}

// contents are the endpoints of each front that leads anywhere, in their order.
func (m *memory) contents() map[string]string {
	all := map[string]string{}
	for f, slot := range m.slotOf {
		w := m.slots[slot]
		text := ""
		for i := range w.n {
			text += m.places[w.base+uint32(i)].endpoint.String() + " "
		}
		if w.n > 0 {
			all[f.String()] = fmt.Sprintf("%sin turn %v", text, w.inTurn)
		}
	}
	return all
}

// TestArena takes and gives at random, beside a list of places that are taken.
func TestArena(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 0))
		var a arena
		taken, blocks := map[uint32]bool{}, map[uint32]int{}
		for range 3000 {
			if r.IntN(3) > 0 || len(blocks) == 0 {
				class := r.IntN(6)
				base, ok := a.take(class)
				if !ok {
					if free := a.size - a.used; free >= a.size/2 && a.size > 1024 {
						t.Fatalf("seed %d: no block of class %d although %d of %d are free", seed, class, free, a.size)
					}
					a.grow(a.sizeFor(a.size - a.used + 1<<class))
					if base, ok = a.take(class); !ok {
						t.Fatalf("seed %d: it has grown to %d and has none of class %d", seed, a.size, class)
					}
				}
				for i := base; i < base+1<<class; i++ {
					if taken[i] || int(i) >= a.size {
						t.Fatalf("seed %d: place %d is taken twice, or beyond %d", seed, i, a.size)
					}
					taken[i] = true
				}
				blocks[base] = class
				continue
			}
			for base, class := range blocks {
				a.give(base, class)
				for i := base; i < base+1<<class; i++ {
					delete(taken, i)
				}
				delete(blocks, base)
				break
			}
			if a.used != len(taken) {
				t.Fatalf("seed %d: %d are used, it counts %d", seed, len(taken), a.used)
			}
		}
		for base, class := range blocks {
			a.give(base, class)
		}
		if base, ok := a.take(classOf(a.size)); !ok || base != 0 || a.used != a.size {
			t.Errorf("seed %d: free blocks were not joined", seed)
		}
	}
}
