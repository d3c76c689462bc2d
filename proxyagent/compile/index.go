package compile

import (
	"cmp"
	"slices"
)

// index knows who claims what. Claims of one key are sorted by their rights, so that the first one wins; a Service claims a key once.
// Finding, adding and removing cost the logarithm of the claims of one key, and moving them.
type index[K comparable] map[K][]claim

// claim is a Service's claim of some key.
type claim struct {
	by    *record
	class class
}

// compare orders by class, then by age, then by name, which no two Services share.
func (c claim) compare(o claim) int {
	if r := cmp.Compare(c.class, o.class); r != 0 {
		return r
	}
	if r := c.by.created.Compare(o.by.created); r != 0 {
		return r
	}
	return c.by.name.Compare(o.by.name)
}

// set puts a claim in, or takes it out; the Service must be as old then as it was when its claim was put in. Either may be so already.
func (x index[K]) set(k K, c claim, present bool) {
	i, found := slices.BinarySearchFunc(x[k], c, claim.compare)
	switch {
	case found == present:
	case present:
		x[k] = slices.Insert(x[k], i, c)
	case len(x[k]) == 1:
		delete(x, k)
	default:
		x[k] = slices.Delete(x[k], i, i+1)
	}
}

// first returns the Service with the best rights to the key, nil when nobody claims it.
func (x index[K]) first(k K) *record {
	if all := x[k]; len(all) > 0 {
		return all[0].by
	}
	return nil
}
