package allocator

import (
	"iter"
	"net/netip"
	"slices"
)

// PrefixTable has values by masked prefixes. Clusters use few lengths of them, which makes look-ups
// short. The zero PrefixTable is empty. It is not safe for concurrent changes.
type PrefixTable[T any] struct {
	values  map[netip.Prefix]T
	lengths map[Family][]int // also of values that are gone
}

// Get returns the value of a prefix, the zero value for none.
func (t *PrefixTable[T]) Get(p netip.Prefix) T { return t.values[p] }

// Set gives a prefix a value.
func (t *PrefixTable[T]) Set(p netip.Prefix, value T) {
	if t.values == nil {
		t.values, t.lengths = map[netip.Prefix]T{}, map[Family][]int{}
	}
	t.values[p] = value
	if f := FamilyOf(p.Addr()); !slices.Contains(t.lengths[f], p.Bits()) {
		t.lengths[f] = append(t.lengths[f], p.Bits())
	}
}

// Delete takes the value of a prefix away.
func (t *PrefixTable[T]) Delete(p netip.Prefix) { delete(t.values, p) }

// Around yields the values of the prefixes that an address lies in.
func (t *PrefixTable[T]) Around(a netip.Addr) iter.Seq[T] {
	return func(yield func(T) bool) {
		for _, bits := range t.lengths[FamilyOf(a)] {
			prefix, _ := a.Prefix(bits) // of the family, so that it is none too long
			if value, ok := t.values[prefix]; ok && !yield(value) {
				return
			}
		}
	}
}
