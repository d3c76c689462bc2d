package allocator

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strconv"
	"sync"
	"time"
)

// State is what an address is in a Pool.
type State uint8

const (
	// Free addresses can be drawn and chosen.
	Free State = iota
	// Assumed addresses have been handed out by Draw or Assume; the cluster has not confirmed them yet.
	Assumed
	// Allocated addresses belong to somebody.
	Allocated
	// Reserved addresses are kept for somebody who does not exist yet.
	Reserved
	// Cooling addresses were given back a short while ago, and are kept from others, so that nobody who still has them in a
	// cache talks to a stranger.
	Cooling
)

// String returns the state in lower case.
func (s State) String() string {
	names := [...]string{Free: "free", Assumed: "assumed", Allocated: "allocated", Reserved: "reserved", Cooling: "cooling"}
	if int(s) < len(names) {
		return names[s]
	}
	return "State(" + strconv.Itoa(int(s)) + ")"
}

// Usage is how the addresses of a Span are used. Size is the sum of Allocated, Reserved, Cooling
// and Free.
//
// Assumed are those of the free ones that were handed out. Nothing in the cluster has them, and
// what they were handed out for may never come, so they are not in use. A reserved or cooling
// address that was handed out counts as allocated: its IPAddress still stands in the cluster.
type Usage struct{ Size, Allocated, Reserved, Cooling, Free, Assumed uint64 }

// Available is how many addresses a Request that says Yield finds: those that are free, and those
// that cool down.
func (u Usage) Available() uint64 { return u.Free + u.Cooling }

// Pool is what is used in a cluster, in both families: one set of used addresses per family, shared by all
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
// A call costs a few searches in what is used, and Draw one more for each try; none of it depends
// on the size of a range. Memory follows the number of used addresses. A pool in use allocates only
// as it grows, for an address that begins to cool, and for the result of Used.
//
// One lock is held for the time of this arithmetic and never while anybody else's code runs.
type Pool struct {
	mu   sync.Mutex
	rand *rand.Rand
	four family
	six  family
	open []opening // used again for every draw, so that drawing allocates nothing
}

// NewPool returns a Pool in which every address is Free.
func NewPool() *Pool { return NewPoolWithRand(rand.NewPCG(rand.Uint64(), rand.Uint64())) }

// NewPoolWithRand is NewPool with a random source of the caller's, so that a test can repeat what was drawn. The pool holds its lock while it asks src,
// which must not be used by anybody else.
func NewPoolWithRand(src rand.Source) *Pool { return &Pool{rand: rand.New(src)} }

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

// Cool says that a was given back at the given time: it becomes Cooling, and yields (Request.Yield) after
// those that have been cooling for longer. What counts is the time, not the order of the calls; of two addresses
// given back at the same time, the lower one yields first. Cooling again with another time corrects the time.
//
// An Assumed address stays assumed, as with Release. So to give back a cooling address that Draw took,
// Forget it and let it Cool.
func (p *Pool) Cool(a netip.Addr, since time.Time) {
	if !plain(a) {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.family(a).cool(numberOf(a), since)
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
	f, size := p.family(s.First), s.Size()
	u := Usage{Size: size, Reserved: f.reserved.countIn(iv), Cooling: f.cooling.members.countIn(iv)}
	u.Assumed = f.fresh.countIn(iv)
	used := f.used.countIn(iv) - u.Assumed
	u.Allocated, u.Free = used-u.Reserved-u.Cooling, size-used
	return u
}

// Used returns the first limit addresses of s that are not Free, in ascending order.
func (p *Pool) Used(s Span, limit int) []netip.Addr {
	iv, ok := s.interval()
	if !ok || limit <= 0 {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	var list []netip.Addr
	for a := range p.family(s.First).used.all(iv) {
		if list = append(list, a.addr(s.First.Is4())); len(list) == limit {
			break
		}
	}
	return list
}

// Draw draws a free address and makes it Assumed. The caller then writes it to the cluster; until it observes it
// there, or forgets it, nobody else gets it.
//
// The first tier that has a free address gives it; each free one of that tier is equally likely. When no tier has one
// and the Request says Yield, it is the address that has been cooling for longest in any of the tiers.
//
// Addresses are tried at random as long as that is cheaper than counting what is free in each of the runs of a tier,
// so that thousands of runs cost little more than one until a tier is nearly full.
//
// The error is ErrFull if nothing is left, and another one if the tiers are of two families.
func (p *Pool) Draw(r Request) (Drawn, error) {
	is4, err := r.family()
	if err != nil {
		return Drawn{}, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	f := p.of(is4)
	a, ok := p.draw(f, r)
	cooled := !ok
	if cooled {
		a, ok = f.yield(r)
	}
	if !ok {
		return Drawn{}, ErrFull
	}
	f.assumed.insert(a) // either way left it used
	f.fresh.mark(a, !cooled)
	return Drawn{a.addr(is4), cooled}, nil
}

// Assume makes a Assumed, if it is Free, Cooling or Reserved, and reports whether it did: for a reserved or cooling
// address that is handed to whoever has the right to it, and for one that another process has handed out. It does
// nothing for an address that is Assumed or Allocated already, is invalid, or has a zone.
func (p *Pool) Assume(a netip.Addr) bool {
	if !plain(a) {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	f, n := p.family(a), numberOf(a)
	was := f.state(n)
	if was == Assumed || was == Allocated {
		return false
	}
	f.set(n, Assumed)
	f.fresh.mark(n, was == Free)
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

// family is what is used in one family. Whatever is reserved, cooling or assumed is also used; what is used
// and none of these is allocated. Of the assumed addresses, fresh are those that were free before.
type family struct {
	used, reserved, assumed, fresh set
	cooling                        queue
}

// state returns the state of a.
func (f *family) state(a uint128) State {
	switch {
	case !f.used.contains(a):
		return Free
	case f.assumed.contains(a):
		return Assumed
	case f.reserved.contains(a):
		return Reserved
	case f.cooling.members.contains(a):
		return Cooling
	default:
		return Allocated
	}
}

// set makes a what s says, whatever it was. Cooling takes a time, see cool.
func (f *family) set(a uint128, s State) {
	f.used.mark(a, s != Free)
	f.assumed.mark(a, s == Assumed)
	f.fresh.delete(a)
	f.reserved.mark(a, s == Reserved)
	f.cooling.remove(a)
}

// cool makes a Cooling, unless it is Assumed.
func (f *family) cool(a uint128, since time.Time) {
	if f.assumed.contains(a) {
		return
	}
	f.used.insert(a)
	f.reserved.delete(a)
	f.cooling.put(a, since)
}

// mark puts a into s or takes it out.
func (s *set) mark(a uint128, member bool) {
	if member {
		s.insert(a)
	} else {
		s.delete(a)
	}
}
