//go:build linux

package tables

import (
	"reflect"
	"time"
)

// layout is how chains are written as things stand.
func (t *Table) layout() layout {
	return layout{t.globals, t.used[firewalled] > 0}
}

// Transaction is what brings the kernel to what is wanted: chains with their rules, chains to take
// away after that, and elements.
type Transaction struct {
	Write  map[string]Chain
	Remove []string
	Change map[Key]Change
	left   leaving
}

// Empty reports whether there is nothing to do.
func (t Transaction) Empty() bool { return len(t.Write)+len(t.Remove)+len(t.Change) == 0 }

// Pending reports whether anything is not written yet, be it for later.
func (t *Table) Pending() bool { return len(t.changed)+len(t.pending) > 0 }

// Transaction returns what is not written, except what packets under way may still look for.
func (t *Table) Transaction(now time.Time) Transaction {
	left := t.leave(now)
	write, remove := t.differing()
	return Transaction{write, remove, t.changed, left}
}

// Written notes that the kernel has done a Transaction, and when. What was marked goes into new
// maps: a map never gets smaller.
func (t *Table) Written(done Transaction, at time.Time) {
	l := t.layout()
	t.written, t.changed, t.pending = &l, done.left.elements, done.left.chains
	for k, c := range t.changed {
		if c.left.IsZero() { // packets that looked before the kernel was done may be under way since then
			c.left = at
			t.changed[k] = c
		}
	}
}

// differing are the chains that have to be written, and those that have to be taken away.
func (t *Table) differing() (write map[string]Chain, remove []string) {
	write = map[string]Chain{}
	l := t.layout()
	static := l.static()
	if t.written == nil || !reflect.DeepEqual(*t.written, l) {
		t.compareLayouts(l, static)
	}
	for name, s := range t.pending {
		c, wanted := static[name]
		if r, ok := t.chains[name]; ok {
			c, wanted = Chain{Rules: l.route(r)}, true
		}
		if wanted {
			write[name] = c
		} else if s.there {
			remove = append(remove, name)
		}
	}
	return write, remove
}

// compareLayouts finds the chains that another layout writes in another way.
func (t *Table) compareLayouts(l layout, static map[string]Chain) {
	var before map[string]Chain
	if t.written != nil {
		before = t.written.static()
	}
	for name, c := range static {
		if was, there := before[name]; !there || !reflect.DeepEqual(was, c) {
			t.pending[name] = state{there: there}
		}
	}
	for name := range before {
		if _, stays := static[name]; !stays {
			t.pending[name] = state{there: true}
		}
	}
	for name, r := range t.chains {
		if t.written == nil || !reflect.DeepEqual(t.written.route(r), l.route(r)) {
			t.pending[name] = state{there: t.pending[name].there || t.written != nil}
		}
	}
}

// underWay is longer than packets need to pass the rules, even if a virtual processor pauses.
const underWay = time.Second

// leaving is what differs from the kernel, but is to be taken away later.
type leaving struct {
	elements map[Key]Change
	chains   states
}

// leave takes what is leaving out of what differs. A transaction is atomic for programs, not for
// packets: each look-up sees what is there in its moment. So a packet that has drawn the index 7 of
// 10 may look for the endpoint after all but one have gone. It finds the endpoint as long as
// packets are under way that came before; later packets are led elsewhere.
func (t *Table) leave(now time.Time) leaving {
	left := leaving{map[Key]Change{}, states{}}
	for k, c := range t.changed {
		if !c.There || c.Wanted || !t.lookedUpLate(k) {
			continue
		}
		if !c.left.IsZero() && now.Sub(c.left) >= underWay {
			continue
		}
		left.elements[k] = c
		delete(t.changed, k)
		if (k.Set == routes || k.Set == through) && t.pending[c.Was].there {
			left.chains[c.Was] = state{there: true}
			delete(t.pending, c.Was)
		}
	}
	return left
}

// lookedUpLate reports whether packets come to an element by way of another one that has gone.
func (t *Table) lookedUpLate(k Key) bool {
	switch k.Set {
	case routes, through, sources: // a source range may be part of one that has come
		return true
	case hairpin:
		// A packet is translated first and gets the node's address on its way out. If it did not, it
		// would come back to its sender, and so would all that the connection sends again.
		return true
	case unserved, nodeUnserved:
		// A packet that was not translated comes to these after that. Without them it would leave the
		// node as it is, and so would all that the connection sends again. What IPVS takes meets them
		// always. Not so source ranges: they would keep clients from the next Service at an address.
		return !t.globals.Balanced
	}
	return Schemas[k.Set].Kind == endpoint
}
