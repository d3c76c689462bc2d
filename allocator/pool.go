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
	// Assumed addresses were handed out by Draw or Assume; the cluster has not confirmed them yet.
	Assumed
	// Allocated addresses belong to a Service.
	Allocated
	// Reserved addresses are kept for a Service that does not exist yet.
	Reserved
	// Cooling addresses were given back recently and are kept from other Services, so that a client
	// that still has one in a cache does not reach another Service.
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
// Assumed counts those of the free ones that were handed out. No object in the cluster has them,
// and what they were handed out for may never come, so they are not in use. A reserved or cooling
// address that was handed out counts as allocated: its IPAddress still stands in the cluster.
type Usage struct{ Size, Allocated, Reserved, Cooling, Free, Assumed uint64 }

// Available is how many addresses a Request with Yield can draw: the free and the cooling ones.
func (u Usage) Available() uint64 { return u.Free + u.Cooling }

// Pool is what a cluster uses in both families: one set of used addresses per family, shared by all
// ranges. Every address is in one State, most are Free. A Pool is safe for concurrent use. NewPool
// makes one; the zero Pool is not ready.
//
// Addresses move like this; a call for which there is no arrow does nothing:
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
// One lock is held during this arithmetic, never while code of a caller runs but a rand.Source.
type Pool struct {
	mu   sync.Mutex
	rand *rand.Rand
	four familyPool
	six  familyPool
	open []opening // used again for every draw, so that drawing allocates nothing
}

// NewPool returns a Pool in which every address is Free.
func NewPool() *Pool { return NewPoolWithRand(rand.NewPCG(rand.Uint64(), rand.Uint64())) }

// NewPoolWithRand is NewPool with the caller's random source, so that a test can repeat its draws.
// The pool holds its lock while it asks src, which nothing else may use.
func NewPoolWithRand(src rand.Source) *Pool { return &Pool{rand: rand.New(src)} }

// Observe says what the cluster has for a: Allocated or Reserved. Any other state is the caller's
// mistake and panics (Cooling takes a time: see Cool). The state until then does not matter: to
// observe twice is to observe once, and an Assumed address is confirmed.
func (p *Pool) Observe(a netip.Addr, s State) {
	if s != Allocated && s != Reserved {
		panic(fmt.Sprintf("allocator: observing %s as %s; only allocated and reserved addresses are observed", a, s))
	}
	if !plain(a) {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.of(FamilyOf(a)).set(numberOf(a), s)
}

// Cool says that a was given back at the given time: it becomes Cooling, and yields (Request.Yield)
// after those that have been cooling longer. The time counts, not the order of calls; of two given
// back at the same time the lower yields first. Another Cool corrects the time.
//
// An Assumed address stays assumed, as with Release. So to give back a cooling address that Draw
// took, Forget it and let it Cool.
func (p *Pool) Cool(a netip.Addr, since time.Time) {
	if !plain(a) {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.of(FamilyOf(a)).cool(numberOf(a), since)
}

// Release says that the cluster no longer has a, which becomes Free.
//
// An Assumed address stays assumed: a caller in this process is about to write it to the cluster,
// so what is gone can only be its predecessor, reported late. Freeing it would hand it out a second
// time during the write. Forget or Observe decide.
func (p *Pool) Release(a netip.Addr) {
	if !plain(a) {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if f, n := p.of(FamilyOf(a)), numberOf(a); f.state(n) != Assumed {
		f.set(n, Free)
	}
}

// State returns the state of a. Invalid addresses and ones with a zone are always Free.
func (p *Pool) State(a netip.Addr) State {
	if !plain(a) {
		return Free
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.of(FamilyOf(a)).state(numberOf(a))
}

// Usage counts the addresses of s by state. If the Span has more than 2^64-1 addresses, which no
// Range has, Size is 2^64-1 and Free is what remains of that.
func (p *Pool) Usage(s Span) Usage {
	iv, ok := s.interval()
	if !ok {
		return Usage{}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	f, size := p.of(FamilyOf(s.First)), s.Size()
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
	for a := range p.of(FamilyOf(s.First)).used.all(iv) {
		if list = append(list, a.addr(FamilyOf(s.First))); len(list) == limit {
			break
		}
	}
	return list
}

// Draw draws a free address and makes it Assumed. The caller then writes it to the cluster; no
// other caller gets it until this one observes it there or forgets it.
//
// The first tier that has a free address gives it, each of its free ones equally likely. If no tier
// has one and the Request says Yield, it is the one cooling for longest in any of the tiers.
//
// Addresses are tried at random while that is cheaper than counting what is free in each run of a
// tier, so that thousands of runs cost little more than one until a tier is nearly full.
//
// The error is ErrFull if nothing is left, and another one if the tiers are of two families.
func (p *Pool) Draw(r Request) (Drawn, error) {
	family, err := r.family()
	if err != nil {
		return Drawn{}, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	f := p.of(family)
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
	return Drawn{a.addr(family), cooled}, nil
}

// Assume makes a Assumed if it is Free, Cooling or Reserved, and reports whether it did: for a
// reserved or cooling address that goes to the Service entitled to it, and for one that another
// process has handed out. It does nothing if a is already Assumed or Allocated, invalid, or zoned.
func (p *Pool) Assume(a netip.Addr) bool {
	if !plain(a) {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	f, n := p.of(FamilyOf(a)), numberOf(a)
	was := f.state(n)
	if was == Assumed || was == Allocated {
		return false
	}
	f.set(n, Assumed)
	f.fresh.mark(n, was == Free)
	return true
}

// Forget says that a was not written: Assumed becomes Free. In any other state a stays as it is.
func (p *Pool) Forget(a netip.Addr) {
	if !plain(a) {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if f, n := p.of(FamilyOf(a)), numberOf(a); f.assumed.contains(n) {
		f.set(n, Free)
	}
}

func (p *Pool) of(f Family) *familyPool {
	if f == IPv4 {
		return &p.four
	}
	return &p.six
}

// familyPool is what is used in one family. What is reserved, cooling or assumed is also used; what
// is used and none of these is allocated. fresh are the assumed addresses that were free before.
type familyPool struct {
	used, reserved, assumed, fresh set
	cooling                        queue
}

// state returns the state of a.
func (f *familyPool) state(a uint128) State {
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

// set puts a into state s, whatever it was before. Cooling takes a time: see cool.
func (f *familyPool) set(a uint128, s State) {
	f.used.mark(a, s != Free)
	f.assumed.mark(a, s == Assumed)
	f.fresh.delete(a)
	f.reserved.mark(a, s == Reserved)
	f.cooling.remove(a)
}

// cool makes a Cooling, unless it is Assumed.
func (f *familyPool) cool(a uint128, since time.Time) {
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
