package allocator

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sort"
)

// Tier is a set of addresses of one family to draw from, ready to be drawn from: disjoint runs in ascending order
// and, for each of them, how many addresses lie before it. Whoever draws often makes it once.
//
// A Tier never changes, so any number of Lots and goroutines may share it. The zero Tier and a nil one have no
// address; of such a Tier every draw goes on to the next one.
type Tier struct {
	is4    bool
	list   intervals // normal
	starts []uint128 // starts[i] is the number of addresses before list[i]
	size   uint128
}

// errAll is the one size that 128 bits cannot say.
var errAll = errors.New("all of IPv6 is too much to draw from")

// NewTier returns the addresses of the spans, each once however many of them it lies in, without those that are
// excluded. Empty spans add nothing; excluded spans of the other family exclude nothing. Neither list is kept.
//
// The error says that the spans are of two families, or that they are the whole of IPv6.
//
// It costs a sort of both lists, and 48 bytes for each run that results.
func NewTier(spans, exclude []Span) (*Tier, error) {
	is4, err := familyOf(spans)
	if err != nil {
		return nil, fmt.Errorf("making a tier: %w", err)
	}
	var list, holes intervals
	for _, s := range spans {
		list = list.with(s, is4)
	}
	for _, s := range exclude {
		holes = holes.with(s, is4)
	}
	t := newTier(list, holes.normalize(), is4)
	if t.size.isZero() && len(t.list) > 0 {
		return nil, fmt.Errorf("making a tier: %w", errAll)
	}
	return t, nil
}

// newTier returns the addresses of the list, which it may sort, without those of the holes, which are normal.
func newTier(list, holes intervals, is4 bool) *Tier {
	var rest intervals
	for _, iv := range list.normalize() {
		rest = holes.cutFrom(iv, rest)
	}
	t := &Tier{is4: is4, list: slices.Clone(rest), starts: make([]uint128, len(rest))}
	for i, iv := range t.list {
		t.starts[i] = t.size
		t.size = t.size.add(iv.size())
	}
	return t
}

// familyOf reports whether spans are of IPv4, and returns an error if they are of both families. Empty ones are
// of neither.
func familyOf(spans []Span) (is4 bool, err error) {
	var first Span
	for _, s := range spans {
		switch {
		case s.IsEmpty():
		case first.IsEmpty():
			first = s
		case s.First.Is4() != first.First.Is4():
			return false, fmt.Errorf("%s and %s are of two families; make a tier for each", first, s)
		}
	}
	return first.First.Is4(), nil
}

// Contains reports whether a is one of the addresses.
func (t *Tier) Contains(a netip.Addr) bool {
	list := t.runs()
	if len(list) == 0 || !plain(a) || a.Is4() != t.is4 {
		return false
	}
	n := numberOf(a)
	i := sort.Search(len(list), func(i int) bool { return n.less(list[i].first) })
	return i > 0 && !list[i-1].last.less(n)
}

// Size is the number of addresses, used or not; 2^64-1 if there are more.
func (t *Tier) Size() uint64 {
	if t == nil {
		return 0
	}
	return t.size.saturated()
}

// runs returns the runs of addresses, also of a nil Tier.
func (t *Tier) runs() intervals {
	if t == nil {
		return nil
	}
	return t.list
}

// at returns the address with k others before it; k is less than the size.
func (t *Tier) at(k uint128) uint128 {
	low, size := 0, len(t.starts) // the last start that is at most k is in [low, low+size)
	for size > 1 {
		half := size / 2
		low += half &^ k.lessMask(t.starts[low+half])
		size -= half
	}
	return t.list[low].first.add(k.sub(t.starts[low]))
}
