package golden

import (
	"cmp"
	"net/netip"
	"slices"
)

// Tier is addresses to draw from, each once, in ascending order.
type Tier []netip.Addr

// NewTier returns the addresses of spans without those that are excluded.
func NewTier(spans, exclude []Span) Tier {
	var t Tier
	for _, s := range spans {
		t = append(t, s.Addrs()...)
	}
	slices.SortFunc(t, netip.Addr.Compare)
	return slices.DeleteFunc(slices.Compact(t), func(a netip.Addr) bool { return has(exclude, a) })
}

func has(spans []Span, a netip.Addr) bool {
	return slices.ContainsFunc(spans, func(s Span) bool { return s.Has(a) })
}

// Lot says where an address may be drawn.
type Lot struct {
	Tiers []Tier
	Yield bool
}

// Addrs returns the addresses of all tiers, each once, in ascending order.
func (l Lot) Addrs() []netip.Addr {
	all := slices.Concat(l.Tiers...)
	slices.SortFunc(all, netip.Addr.Compare)
	return slices.Compact(all)
}

// Eligible returns the addresses of which one may be drawn now; each must be equally likely. It returns nil if
// the lot leaves nothing. One that has to yield is cooling, which State tells.
func (p *Pool) Eligible(l Lot) []netip.Addr {
	for _, t := range l.Tiers {
		if free := p.only(Free, t); len(free) > 0 {
			return free
		}
	}
	if resting := p.only(Cooling, l.Addrs()); l.Yield && len(resting) > 0 {
		return []netip.Addr{slices.MinFunc(resting, p.byRest)}
	}
	return nil
}

// only returns those of the list that are in state s.
func (p *Pool) only(s string, list []netip.Addr) []netip.Addr {
	return slices.DeleteFunc(slices.Clone(list), func(a netip.Addr) bool { return p.State(a) != s })
}

// byRest puts first what has been cooling for longer, and of two that began at once the lower address.
func (p *Pool) byRest(a, b netip.Addr) int {
	return cmp.Or(p.since[a].Compare(p.since[b]), a.Compare(b))
}
