package allocator

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"sync"
	"time"
)

// Pool is what is used in a cluster, in both families: one Set of used addresses per family, shared by all
// ranges. Every address is in one State, most of them Free. A Pool is safe for concurrent use. NewPool makes
// one; the zero Pool is not ready.
//
// Addresses move like this; what is not drawn does nothing:
//
//	          Draw, Assume                      Observe
//	Free ────────────────────────────> Assumed ─────────> Allocated
//	 ^ ^                                │  │ ^                │
//	 │ └──────────── Forget ────────────┘  │ │ Assume, Draw   │ Observe, Cool
//	 │                             Observe v │ (Cooling)      v
//	 └──────── Release ──────────────── Allocated, Reserved, Cooling
//
// Costs, with n used addresses and r runs of addresses in a Tier:
//
//	State, Observe, Cool, Release, Assume     O(log n)
//	Forget, Usage                             O(log n)
//	Used                                      O(log n + limit)
//	Draw                                      O(log r + log n) expected for each try, see there
//
// The logarithm is that of Set: a walk down three levels for a million addresses. None of it depends on the
// size of a range. Except for the result of Used and for errors, nothing is allocated but a node of 1 KiB for
// every ten or more words of 64 addresses that become used, and 64 bytes for an address that starts cooling.
//
// One lock is held for the time of this arithmetic and never while anybody else's code runs.
type Pool struct {
	mu   sync.Mutex
	rand rand.Source
	four family
	six  family
	open []opening // used again for every draw, so that drawing allocates nothing
}

// NewPool returns a Pool in which every address is Free.
func NewPool() *Pool { return NewPoolWithRand(runtimeSource{}) }

// NewPoolWithRand is NewPool with a random source of the caller's, so that a test can repeat what was drawn. The pool holds its lock while it asks src,
// which must not be used by anybody else.
func NewPoolWithRand(src rand.Source) *Pool { return &Pool{rand: src} }

// Observe says what the cluster has for a: Allocated or Reserved; any other state is a mistake of the caller and
// panics (Cooling takes a time: Cool). What the pool thought of a until then does not matter, so that observing
// twice is observing once, and an Assumed address is confirmed.
func (p *Pool) Observe(a netip.Addr, s State) {
	if s != Allocated && s != Reserved {
		panic(fmt.Sprintf("allocator: observing %s as %s; only allocated and reserved addresses are observed", a, s))
	}
	if !plain(a) {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.family(a).set(numberOf(a), s)
}

// Cool says that a was given back at the given time and rests: it becomes Cooling, and yields (Lot.Yield) after
// those that have been cooling for longer. What counts is the time, not the order of the calls; of two addresses
// given back at the same time, the lower one yields first. Cooling again with another time corrects the time.
//
// An Assumed address stays assumed, as with Release. So to give back an address that Draw took from its rest,
// Forget it and let it Cool.
func (p *Pool) Cool(a netip.Addr, since time.Time) {
	if !plain(a) {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.family(a).cool(numberOf(a), moment(since))
}

// Release says that the cluster no longer has a, which becomes Free.
//
// An Assumed address stays assumed: somebody in this process is about to write it to the cluster, and what is
// gone can only be the one before, of which news arrive late. Freeing it would hand it out a second time
// while the write is under way. Forget or Observe decide.
func (p *Pool) Release(a netip.Addr) {
	if !plain(a) {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if f, n := p.family(a), numberOf(a); f.state(n) != Assumed {
		f.set(n, Free)
	}
}

// State returns the state of a. Invalid addresses and those with a zone are Free, and cannot be reserved.
func (p *Pool) State(a netip.Addr) State {
	if !plain(a) {
		return Free
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.family(a).state(numberOf(a))
}

// Usage counts the addresses of s by state. Where the Span has more than 2^64-1 addresses, which no Range has,
// Size is 2^64-1 and Free what remains of that.
func (p *Pool) Usage(s Span) Usage {
	iv, ok := s.interval()
	if !ok {
		return Usage{}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.family(s.First).usage(iv).of(s.Size())
}

// Used returns the first limit addresses of s that are not Free, in ascending order.
func (p *Pool) Used(s Span, limit int) []netip.Addr {
	if s.IsEmpty() || limit <= 0 {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	var list []netip.Addr
	for a := range p.family(s.First).used.All(s) {
		if list = append(list, a); len(list) == limit {
			break
		}
	}
	return list
}

// Draw draws a free address and makes it Assumed. The caller then writes it to the cluster; until it observes it
// there, or forgets it, nobody else gets it.
//
// The first tier that has a free address gives it; each free one of that tier is equally likely. When no tier has one
// and the Lot says Yield, it is the address that has been cooling for longest in any of the tiers.
//
// Addresses are tried at random as long as that is cheaper than counting what is free in each of the runs of a tier,
// so that thousands of runs cost little more than one until a tier is nearly full.
//
// The error is a *FullError, which matches ErrFull, if nothing is left, and another one if the tiers are of two
// families.
func (p *Pool) Draw(l Lot) (Drawn, error) {
	is4, err := l.family()
	if err != nil {
		return Drawn{}, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	f := p.of(is4)
	a, ok := p.draw(f, l)
	cooled := !ok
	if cooled {
		a, ok = f.yield(l)
	}
	if !ok {
		return Drawn{}, f.full(l)
	}
	f.assumed.insert(a) // either way left it used
	return Drawn{a.addr(is4), cooled}, nil
}

// Assume makes a Assumed, if it is Free, Cooling or Reserved, and reports whether it did: for a reserved or resting
// address that is handed to whoever has the right to it, and for one that another process has handed out. It does
// nothing for an address that is Assumed or Allocated already, is invalid, or has a zone.
func (p *Pool) Assume(a netip.Addr) bool {
	if !plain(a) {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	f, n := p.family(a), numberOf(a)
	if s := f.state(n); s == Assumed || s == Allocated {
		return false
	}
	f.set(n, Assumed)
	return true
}

// Forget says that a was not written: Assumed becomes Free. An address in any other state stays as it is.
func (p *Pool) Forget(a netip.Addr) {
	if !plain(a) {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if f, n := p.family(a), numberOf(a); f.assumed.contains(n) {
		f.set(n, Free)
	}
}

func (p *Pool) family(a netip.Addr) *family { return p.of(a.Is4()) }

func (p *Pool) of(is4 bool) *family {
	if is4 {
		return &p.four
	}
	return &p.six
}
