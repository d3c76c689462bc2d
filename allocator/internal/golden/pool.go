package golden

import (
	"cmp"
	"net/netip"
	"slices"
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
	states  map[netip.Addr]string
	cooling []netip.Addr // in order of arrival
}

// NewPool returns a Pool in which every address is free.
func NewPool() *Pool { return &Pool{states: map[netip.Addr]string{}} }

// State returns the state of a.
func (p *Pool) State(a netip.Addr) string {
	if s, ok := p.states[a]; ok {
		return s
	}
	return Free
}

// set makes a what s says. An address that cools already keeps its place in the order.
func (p *Pool) set(a netip.Addr, s string) {
	if s == Cooling && p.State(a) == Cooling {
		return
	}
	p.cooling = slices.DeleteFunc(p.cooling, func(c netip.Addr) bool { return c == a })
	p.states[a] = s
	if s == Cooling {
		p.cooling = append(p.cooling, a)
	}
}

// Take makes a assumed, whatever it was: it was drawn.
func (p *Pool) Take(a netip.Addr) { p.set(a, Assumed) }

// ReserveAddr makes a assumed if it is free, and returns what it was.
func (p *Pool) ReserveAddr(a netip.Addr) (was string) {
	was = p.State(a)
	if was == Free {
		p.set(a, Assumed)
	}
	return was
}

// Commit makes an assumed address allocated.
func (p *Pool) Commit(a netip.Addr) {
	if p.State(a) == Assumed {
		p.set(a, Allocated)
	}
}

// Forget makes an assumed address free.
func (p *Pool) Forget(a netip.Addr) {
	if p.State(a) == Assumed {
		p.set(a, Free)
	}
}

// Observe makes a what the cluster says.
func (p *Pool) Observe(a netip.Addr, s string) { p.set(a, s) }

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

// Candidate is a range to draw from. Higher priorities come first.
type Candidate struct {
	Range    Range
	Priority int
}

// Choice says where an address may be drawn.
type Choice struct {
	Ranges       []Candidate
	Exclude      []Span
	YieldCooling bool
}

// Eligible returns the addresses of which one may be drawn now; each must be equally likely. It returns nil if
// the choice leaves nothing.
func (p *Pool) Eligible(c Choice) []netip.Addr {
	for _, withStatic := range []bool{false, true} {
		for _, priority := range c.priorities() {
			if tier := p.tier(c, priority, withStatic); len(tier) > 0 {
				return tier
			}
		}
	}
	if !c.YieldCooling {
		return nil
	}
	for _, a := range p.cooling {
		if slices.Contains(c.Usable(), a) && !c.excludes(a) {
			return []netip.Addr{a}
		}
	}
	return nil
}

// tier returns the free addresses of one priority, with or without those that are static in any candidate.
func (p *Pool) tier(c Choice, priority int, withStatic bool) []netip.Addr {
	var same Choice
	for _, o := range c.Ranges {
		if o.Priority == priority {
			same.Ranges = append(same.Ranges, o)
		}
	}
	var tier []netip.Addr
	for _, a := range same.Usable() {
		if p.State(a) == Free && !c.excludes(a) && (withStatic || !c.IsStatic(a)) {
			tier = append(tier, a)
		}
	}
	return tier
}

// Usable returns the usable addresses of all candidates, each once, in ascending order.
func (c Choice) Usable() []netip.Addr {
	var list []netip.Addr
	for _, o := range c.Ranges {
		list = append(list, o.Range.Usable().Addrs()...)
	}
	slices.SortFunc(list, netip.Addr.Compare)
	return slices.Compact(list)
}

// IsStatic reports whether a is static in any candidate.
func (c Choice) IsStatic(a netip.Addr) bool {
	return slices.ContainsFunc(c.Ranges, func(o Candidate) bool { return o.Range.Static().Has(a) })
}

// Excluded returns how many of the free addresses are excluded.
func (p *Pool) Excluded(c Choice) (n uint64) {
	for _, a := range c.Usable() {
		if p.State(a) == Free && c.excludes(a) {
			n++
		}
	}
	return n
}

func (c Choice) excludes(a netip.Addr) bool {
	return slices.ContainsFunc(c.Exclude, func(s Span) bool { return s.Has(a) })
}

// priorities returns the priorities of the candidates, each once, in descending order.
func (c Choice) priorities() []int {
	var list []int
	for _, o := range c.Ranges {
		list = append(list, o.Priority)
	}
	slices.SortFunc(list, func(a, b int) int { return cmp.Compare(b, a) })
	return slices.Compact(list)
}
