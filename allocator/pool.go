package allocator

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"sync"
)

// Pool is what is used in a cluster, in both families: one Set of used addresses per family, shared by all
// ranges. Every address is in one State, most of them Free. A Pool is safe for concurrent use. NewPool makes
// one; the zero Pool is not ready.
//
// Addresses move like this; what is not drawn does nothing:
//
//	       Reserve, ReserveAddr             Commit
//	Free ───────────────────────> Assumed ─────────> Allocated
//	 ^ ^                           │   │                 │
//	 │ └────────── Forget ─────────┘   │ Observe         │ Observe
//	 │                                 v                 v
//	 └─────────── Release ──────────── Allocated, Reserved, Cooling
//
// Costs, with n used addresses and r ranges and exclusions in a Choice:
//
//	State, Observe, Release, ReserveAddr, Commit, Forget     O(log n)
//	Usage                                                    O(log n)
//	Used                                                     O(log n + limit)
//	Reserve                                                  O(r log r + r log n)
//
// The logarithm is that of Set: a walk down three levels for a million addresses. None of it depends on the
// size of a range or on how full it is. Except for the result of Used and for errors, nothing is allocated
// but a node of 1 KiB for every ten or more words of 64 addresses that become used, and 64 bytes for an
// address that starts cooling.
//
// One lock is held for the time of this arithmetic and never while anybody else's code runs, except for the
// random source.
type Pool struct {
	mu   sync.Mutex
	rand rand.Source
	four family
	six  family
	plan plan // room for Reserve to work in
}

// Option changes how NewPool makes a Pool.
type Option func(*Pool)

// WithRand draws addresses with src instead of the generator of the runtime. The pool holds its lock while it
// asks src, which must not be used by anybody else.
func WithRand(src rand.Source) Option {
	return func(p *Pool) { p.rand = src }
}

// NewPool returns a Pool in which every address is Free.
func NewPool(opts ...Option) *Pool {
	p := &Pool{rand: runtimeSource{}}
	for _, opt := range opts {
		opt(p)
	}
	return p
}

// Observe says what the cluster has for a: Allocated, Reserved or Cooling; any other state is a mistake of
// the caller and panics. What the pool thought of a until then does not matter, so that observing twice is
// observing once, and an Assumed address is confirmed.
//
// Cooling addresses remember the order in which they started to cool, and observing one again does not move
// it. After a restart the caller observes them in that order. To give back an address that was drawn with
// YieldCooling, observe it as Cooling: Forget would make it Free.
func (p *Pool) Observe(a netip.Addr, s State) {
	if s != Allocated && s != Reserved && s != Cooling {
		panic(fmt.Sprintf("allocator: observing %s as %s; the cluster has allocated, reserved and cooling addresses", a, s))
	}
	if !plain(a) {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.family(a).set(numberOf(a), s)
}

// Release says that the cluster no longer has a, which becomes Free.
//
// An Assumed address stays assumed: somebody in this process is about to write it to the cluster, and what is
// gone can only be the one before, of which news arrive late. Freeing it would hand it out a second time
// while the write is under way. Forget or Commit decide.
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

// Reserve draws a free address, each that the Choice makes eligible being equally likely, and makes it
// Assumed. The caller then writes it to the cluster and calls Commit or Forget; until then nobody else gets it.
//
// The error is a *FullError, which matches ErrFull, if nothing is left, and another one if the candidates
// are of two families.
func (p *Pool) Reserve(c Choice) (netip.Addr, error) {
	is4, err := c.family()
	if err != nil {
		return netip.Addr{}, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	f := p.of(is4)
	p.plan.prepare(c, is4)
	a, ok := p.draw(f)
	if !ok && c.YieldCooling {
		a, ok = f.cooling.takeOldest(p.plan.everything(p.plan.excluded))
	}
	if !ok {
		return netip.Addr{}, p.full(f, c)
	}
	f.assumed.insert(a) // either draw left it used
	return a.addr(is4), nil
}

// ReserveAddr makes a Assumed if it is Free. The error is a *TakenError, which matches ErrTaken, if it is not,
// and another one if a is invalid or has a zone. Whether a belongs to any range is up to the caller.
func (p *Pool) ReserveAddr(a netip.Addr) error {
	if !plain(a) {
		return fmt.Errorf("reserving %q: it is not an IP address without a zone", a)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	f, n := p.family(a), numberOf(a)
	if s := f.state(n); s != Free {
		return &TakenError{a, s}
	}
	f.set(n, Assumed)
	return nil
}

// Commit says that the cluster accepted a: Assumed becomes Allocated. An address in any other state stays as
// it is, the cluster's own news having come first.
func (p *Pool) Commit(a netip.Addr) { p.settle(a, Allocated) }

// Forget says that a was not written: Assumed becomes Free. An address in any other state stays as it is.
func (p *Pool) Forget(a netip.Addr) { p.settle(a, Free) }

// settle makes an Assumed address s.
func (p *Pool) settle(a netip.Addr, s State) {
	if !plain(a) {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if f, n := p.family(a), numberOf(a); f.assumed.contains(n) {
		f.set(n, s)
	}
}

func (p *Pool) family(a netip.Addr) *family { return p.of(a.Is4()) }

func (p *Pool) of(is4 bool) *family {
	if is4 {
		return &p.four
	}
	return &p.six
}
