package steering

import (
	"iter"
	"net/netip"
	"slices"
	"sort"

	"github.com/clusterip-operator/clusterip-operator/allocator"
)

// reservedList are reservations by first address, disjoint, in parts of which none is empty. It is
// immutable: a change copies the list of parts and those that it touches, for a cluster may have
// hundreds of thousands of reservations. The zero reservedList is empty.
type reservedList [][]*Reservation

// mostInPart is from how many reservations on a part becomes two.
const mostInPart = 128

// from returns the place of the first reservation that ends at an address or behind it.
func (l reservedList) from(a netip.Addr) (part, at int) {
	ends := func(r *Reservation) bool { return !r.Span.Last.Less(a) }
	part = sort.Search(len(l), func(i int) bool { return ends(l[i][len(l[i])-1]) })
	if part < len(l) {
		at = sort.Search(len(l[part]), func(i int) bool { return ends(l[part][i]) })
	}
	return part, at
}

// meeting yields the reservations that meet a span, in order.
func (l reservedList) meeting(sp allocator.Span) iter.Seq[*Reservation] {
	return func(yield func(*Reservation) bool) {
		part, at := l.from(sp.First)
		for ; part < len(l); part, at = part+1, 0 {
			for _, r := range l[part][at:] {
				if !r.Span.Overlaps(sp) || !yield(r) {
					return
				}
			}
		}
	}
}

// with returns the list with more reservations, which meet none of it.
func (l reservedList) with(more []Reservation) reservedList {
	l = slices.Clone(l)
	for i := range more {
		part, at := l.from(more[i].Span.First)
		switch {
		case len(l) == 0:
			l = reservedList{nil}
		case part == len(l):
			part--
			at = len(l[part])
		}
		grown := slices.Concat(l[part][:at], []*Reservation{&more[i]}, l[part][at:])
		if l[part] = grown; len(grown) >= mostInPart {
			l[part] = grown[:mostInPart/2]
			l = slices.Insert(l, part+1, grown[mostInPart/2:])
		}
	}
	return l
}

// without returns the list without some of its reservations.
func (l reservedList) without(gone []Reservation) reservedList {
	l = slices.Clone(l)
	for _, r := range gone {
		part, at := l.from(r.Span.First)
		if len(l[part]) == 1 {
			l = slices.Delete(l, part, part+1)
		} else {
			l[part] = slices.Concat(l[part][:at], l[part][at+1:])
		}
	}
	return l
}
