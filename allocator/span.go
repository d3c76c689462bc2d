package allocator

import "net/netip"

// Span is a run of addresses of one family, both ends included.
//
// The zero Span is empty. So is every Span that makes no sense: ends of two families, ends with zones, a Last
// before its First. Spans are comparable values; two empty ones need not be equal, ask IsEmpty.
type Span struct{ First, Last netip.Addr }

// IsEmpty reports whether s has no address.
func (s Span) IsEmpty() bool {
	_, ok := s.interval()
	return !ok
}

// Size is the number of addresses of s. A Span with more than 2^64-1 of them has size 2^64-1: no Range has
// such a Span, the largest one (an IPv6 /64 without its network address) fits exactly.
func (s Span) Size() uint64 {
	iv, ok := s.interval()
	switch {
	case !ok:
		return 0
	case iv.first.isZero() && iv.last == ones(128):
		return ones(64).lo
	default:
		return iv.size().saturated()
	}
}

// Contains reports whether a is one of the addresses of s.
func (s Span) Contains(a netip.Addr) bool {
	return !s.IsEmpty() && plain(a) && a.Is4() == s.First.Is4() && !a.Less(s.First) && !s.Last.Less(a)
}

// Overlaps reports whether s and o have an address in common.
func (s Span) Overlaps(o Span) bool {
	a, oka := s.interval()
	b, okb := o.interval()
	return oka && okb && s.First.Is4() == o.First.Is4() && a.overlaps(b)
}

// Subtract returns what remains of s when the others are taken away: sorted, disjoint, none of it empty.
// Others that are empty or of the other family take nothing away. It costs a sort of the others.
func (s Span) Subtract(others ...Span) []Span {
	iv, ok := s.interval()
	if !ok {
		return nil
	}
	var holes intervals
	for _, o := range others {
		holes = holes.with(o, s.First.Is4())
	}
	var rest []Span
	for _, r := range holes.normalize().cutFrom(iv, nil) {
		rest = append(rest, r.span(s.First.Is4()))
	}
	return rest
}

// String returns "first-last", or "empty".
func (s Span) String() string {
	if s.IsEmpty() {
		return "empty"
	}
	return s.First.String() + "-" + s.Last.String()
}

// interval returns s in numbers, and false if s is empty.
func (s Span) interval() (interval, bool) {
	if !plain(s.First) || !plain(s.Last) || s.First.Is4() != s.Last.Is4() {
		return interval{}, false
	}
	iv := interval{numberOf(s.First), numberOf(s.Last)}
	return iv, !iv.last.less(iv.first)
}

// span is the inverse of Span.interval.
func (iv interval) span(is4 bool) Span {
	return Span{iv.first.addr(is4), iv.last.addr(is4)}
}

// with appends s, unless it is empty or of the other family.
func (list intervals) with(s Span, is4 bool) intervals {
	if iv, ok := s.interval(); ok && s.First.Is4() == is4 {
		return append(list, iv)
	}
	return list
}

// plain reports whether a is valid and without a zone: only such addresses can be Service addresses.
func plain(a netip.Addr) bool { return a.IsValid() && (a.Is4() || a.Zone() == "") }
