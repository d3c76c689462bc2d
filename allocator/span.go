package allocator

import (
	"math"
	"net/netip"
	"slices"
)

// Span is a run of addresses of one family, both ends included.
//
// The zero Span is empty, as is every Span that makes no sense: ends of two families, ends with
// zones, Last before First. Spans are comparable, but empty ones need not be equal: ask IsEmpty.
type Span struct{ First, Last netip.Addr }

// IsEmpty reports whether s has no address.
func (s Span) IsEmpty() bool {
	_, ok := s.interval()
	return !ok
}

// Size is the number of addresses of s. A Span with more than 2^64-1 has size 2^64-1: no Range is
// so large; the largest (an IPv6 /64 without its network address) fits exactly.
func (s Span) Size() uint64 {
	iv, ok := s.interval()
	if !ok {
		return 0
	}
	if behind := iv.last.sub(iv.first).saturated(); behind < math.MaxUint64 {
		return behind + 1
	}
	return math.MaxUint64
}

// Contains reports whether a is one of the addresses of s.
func (s Span) Contains(a netip.Addr) bool {
	return !s.IsEmpty() && plain(a) && a.Is4() == s.First.Is4() && !a.Less(s.First) && !s.Last.Less(a)
}

// Overlaps reports whether s and o have an address in common.
func (s Span) Overlaps(o Span) bool {
	return !s.IsEmpty() && !o.IsEmpty() && (s.Contains(o.First) || o.Contains(s.First))
}

// Subtract returns what remains of s without the given spans: sorted, disjoint, none empty. Spans
// that are empty or of the other family take nothing away. It costs a sort of the list.
func (s Span) Subtract(others ...Span) []Span {
	iv, ok := s.interval()
	if !ok {
		return nil
	}
	var rest []Span
	for _, r := range intervalsOf(others, FamilyOf(s.First)).cutFrom(iv, nil) {
		rest = append(rest, r.span(FamilyOf(s.First)))
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

// plain reports whether a is valid and has no zone: only such addresses can be Service addresses.
func plain(a netip.Addr) bool { return a.IsValid() && (a.Is4() || a.Zone() == "") }

// interval is a Span in numbers. It is never empty: first <= last.
type interval struct{ first, last uint128 }

// size is the number of addresses. The whole 128-bit space would wrap to 0; no Range comes near.
func (iv interval) size() uint128 { return iv.last.sub(iv.first).plus(1) }

// span is the inverse of Span.interval.
func (iv interval) span(f Family) Span { return Span{iv.first.addr(f), iv.last.addr(f)} }

// intervals is a list of disjoint intervals, sorted by first.
type intervals []interval

// intervalsOf returns the addresses of the spans of one family.
func intervalsOf(spans []Span, f Family) intervals {
	var list intervals
	for _, s := range spans {
		if iv, ok := s.interval(); ok && FamilyOf(s.First) == f {
			list = append(list, iv)
		}
	}
	return list.normalize()
}

// normalize sorts a list in place and joins what overlaps.
func (list intervals) normalize() intervals {
	slices.SortFunc(list, func(a, b interval) int { return a.first.compare(b.first) })
	joined := list[:min(1, len(list))]
	for _, next := range list[len(joined):] {
		switch top := &joined[len(joined)-1]; {
		case top.last.less(next.first):
			joined = append(joined, next)
		case top.last.less(next.last):
			top.last = next.last
		}
	}
	return joined
}

// cutFrom appends to dst what remains of iv when the list is taken away.
//
//	iv    |-----------------------|
//	list     |--|      |---|    |------|
//	dst   |-|    |----|     |--|
func (list intervals) cutFrom(iv interval, dst intervals) intervals {
	next, _ := slices.BinarySearchFunc(list, iv.first, func(hole interval, a uint128) int { return hole.last.compare(a) })
	for _, hole := range list[next:] {
		if iv.last.less(hole.first) {
			break
		}
		if iv.first.less(hole.first) {
			dst = append(dst, interval{iv.first, hole.first.minus(1)})
		}
		if !hole.last.less(iv.last) {
			return dst
		}
		iv.first = hole.last.plus(1)
	}
	return append(dst, iv)
}
