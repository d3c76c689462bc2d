package golden

import (
	"net/netip"
	"time"
)

// The states of an address.
const (
	Free      = "free"
	Assumed   = "assumed"
	Allocated = "allocated"
	Reserved  = "reserved"
	Cooling   = "cooling"
)

// Pool is what is used. Addresses of both families live in it side by side. The zero Pool is not ready, use
// NewPool.
type Pool struct {
	states map[netip.Addr]string
	since  map[netip.Addr]time.Time // of those that cool
}

// NewPool returns a Pool in which every address is free.
func NewPool() *Pool { return &Pool{map[netip.Addr]string{}, map[netip.Addr]time.Time{}} }

// State returns the state of a.
func (p *Pool) State(a netip.Addr) string {
	if s, ok := p.states[a]; ok {
		return s
	}
	return Free
}

// set makes a what s says.
func (p *Pool) set(a netip.Addr, s string) {
	delete(p.since, a)
	p.states[a] = s
}

// Take makes a assumed, whatever it was: it was drawn.
func (p *Pool) Take(a netip.Addr) { p.set(a, Assumed) }

// Assume makes a assumed if it is free, cooling or reserved, and reports whether it was.
func (p *Pool) Assume(a netip.Addr) bool {
	was := p.State(a)
	if was == Assumed || was == Allocated {
		return false
	}
	p.set(a, Assumed)
	return true
}

// Forget makes an assumed address free.
func (p *Pool) Forget(a netip.Addr) {
	if p.State(a) == Assumed {
		p.set(a, Free)
	}
}

// Observe makes a what the cluster says.
func (p *Pool) Observe(a netip.Addr, s string) { p.set(a, s) }

// Cool makes a cooling since a time, unless it is assumed.
func (p *Pool) Cool(a netip.Addr, since time.Time) {
	if p.State(a) != Assumed {
		p.set(a, Cooling)
		p.since[a] = since
	}
}

// Release makes a free, unless it is assumed.
func (p *Pool) Release(a netip.Addr) {
	if p.State(a) != Assumed {
		p.set(a, Free)
	}
}

// Usage is how many addresses there are, and how many of them in which state. Assumed ones count as allocated.
type Usage struct{ Size, Allocated, Reserved, Cooling, Free uint64 }

// Usage counts the addresses.
func (p *Pool) Usage(list []netip.Addr) Usage {
	var u Usage
	for _, a := range list {
		u.Size++
		switch p.State(a) {
		case Free:
			u.Free++
		case Assumed, Allocated:
			u.Allocated++
		case Reserved:
			u.Reserved++
		case Cooling:
			u.Cooling++
		}
	}
	return u
}

// Used returns the first limit addresses of s that are not free.
func (p *Pool) Used(s Span, limit int) []netip.Addr {
	var list []netip.Addr
	for _, a := range s.Addrs() {
		if p.State(a) != Free && len(list) < limit {
			list = append(list, a)
		}
	}
	return list
}
