package golden

import (
	"maps"
	"math/big"
	"net/netip"
	"slices"
)

// Set is a set of addresses of one family.
type Set map[netip.Addr]bool

// Insert adds a and reports whether it is new.
func (s Set) Insert(a netip.Addr) bool {
	isNew := !s[a]
	s[a] = true
	return isNew
}

// Delete removes a and reports whether it was there.
func (s Set) Delete(a netip.Addr) bool {
	was := s[a]
	delete(s, a)
	return was
}

// All returns the members in sp in ascending order.
func (s Set) All(sp Span) []netip.Addr {
	list := slices.Collect(maps.Keys(s))
	list = slices.DeleteFunc(list, func(a netip.Addr) bool { return !sp.Has(a) })
	slices.SortFunc(list, netip.Addr.Compare)
	return list
}

// CountIn returns the number of members in sp.
func (s Set) CountIn(sp Span) int { return len(s.All(sp)) }

// NthFree returns the address of sp that is no member and has k such addresses of sp before it, and false if
// there is none. Every member that is met on the way pushes the answer by one.
func (s Set) NthFree(sp Span, k uint64) (netip.Addr, bool) {
	return NthBetween(s.All(sp), sp, k)
}

// NthBetween is NthFree for whoever has All at hand already.
func NthBetween(members []netip.Addr, sp Span, k uint64) (netip.Addr, bool) {
	if sp.IsEmpty() {
		return netip.Addr{}, false
	}
	n := new(big.Int).Add(Number(sp.First), new(big.Int).SetUint64(k))
	for _, member := range members {
		if Number(member).Cmp(n) > 0 {
			break
		}
		n = plus(n, 1)
	}
	if n.Cmp(Number(sp.Last)) > 0 {
		return netip.Addr{}, false
	}
	return Addr(n, sp.First.Is4()), true
}
