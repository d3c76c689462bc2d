package allocator

import (
	"errors"
	"fmt"
	"net/netip"
	"sort"
)

// Tier is a set of addresses of one family to draw from: disjoint runs in ascending order and, for
// each, how many addresses lie before it. A caller that draws often makes it once.
//
// A Tier never changes, so any number of requests and goroutines may share it. The zero Tier and a
// nil one have no address: every draw from them goes on to the next tier.
type Tier struct {
	family Family
	list   intervals
	starts []uint128 // starts[i] is the number of addresses before list[i]
	size   uint128
}

// errAll is for the one size that 128 bits cannot hold.
var errAll = errors.New("making a tier: all of IPv6 is too much to draw from")

// NewTier returns the addresses of the spans, each once, without the excluded ones. Empty spans add
// nothing; excluded spans of the other family exclude nothing. It keeps neither list.
//
// The error says that the spans are of two families, or that they are the whole of IPv6.
//
// It costs a sort of both lists, and 48 bytes for each run that results.
func NewTier(spans, exclude []Span) (*Tier, error) {
	var one Span
	for _, s := range spans {
		if s.IsEmpty() {
			continue
		}
		if !one.IsEmpty() && s.First.Is4() != one.First.Is4() {
			return nil, fmt.Errorf("making a tier: %s and %s are of two families; make a tier for each", one, s)
		}
		one = s
	}
	t := &Tier{family: FamilyOf(one.First)}
	holes := intervalsOf(exclude, t.family)
	for _, iv := range intervalsOf(spans, t.family) {
		t.list = holes.cutFrom(iv, t.list)
	}
	t.starts = make([]uint128, len(t.list))
	for i, iv := range t.list {
		t.starts[i] = t.size
		t.size = t.size.add(iv.size())
	}
	if t.size.isZero() && len(t.list) > 0 {
		return nil, errAll
	}
	return t, nil
}

// Contains reports whether a is one of the addresses.
func (t *Tier) Contains(a netip.Addr) bool {
	return plain(a) && t != nil && FamilyOf(a) == t.family && t.has(numberOf(a))
}

// has is Contains for a number of the tier's family.
func (t *Tier) has(n uint128) bool {
	list := t.runs()
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

// Spans returns the runs of addresses, ascending and disjoint.
func (t *Tier) Spans() (out []Span) {
	for _, iv := range t.runs() {
		out = append(out, iv.span(t.family))
	}
	return out
}

// runs returns the runs of addresses, also of a nil Tier.
func (t *Tier) runs() intervals {
	if t == nil {
		return nil
	}
	return t.list
}

// at returns the k-th address, counted from 0; k is less than the size.
func (t *Tier) at(k uint128) uint128 {
	i := sort.Search(len(t.starts), func(i int) bool { return k.less(t.starts[i]) }) - 1
	return t.list[i].first.add(k.sub(t.starts[i]))
}
