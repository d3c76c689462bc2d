package allocator

import (
	"cmp"
	"fmt"
	"slices"
)

// Choice describes by ranges where addresses may be drawn; Tiers makes of it what Pool.Draw needs. All its ranges
// are of one family.
//
// Candidates of equal Priority form a group; groups come in descending order of Priority. The dynamic
// addresses of all groups come before the static ones of any:
//
//	priority 10   A |-- static --|------ dynamic ------|
//	priority  0   B |-- static --|------ dynamic ------|
//
//	order: dynamic of A, dynamic of B, static of A, static of B
//
// Inside a group every free address is equally likely, whatever ranges it lies in and however many. An
// address that is static in one candidate is static, even if it is dynamic in another one, so that bands
// stay clean where ranges overlap.
type Choice struct {
	// Ranges are the candidates, in any order.
	Ranges []Candidate
	// Exclude is never drawn. Spans of the other family exclude nothing.
	Exclude []Span
}

// Candidate is a Range with the Priority it is drawn from with; higher ones come first.
type Candidate struct {
	Range    Range
	Priority int
}

// Tiers returns the tiers of a Lot in the order that Choice tells. It leaves out those without addresses, and it
// changes nothing of the Choice. The error says that the ranges are of two families.
func (c Choice) Tiers() ([]*Tier, error) {
	is4, err := c.family()
	if err != nil {
		return nil, err
	}
	excluded := c.excluded(is4)
	groups := c.groups()
	dynamic := tiersOf(groups, slices.Concat(c.static(), excluded).normalize(), is4)
	taken := excluded
	for _, t := range dynamic {
		taken = append(taken, t.list...)
	}
	return append(dynamic, tiersOf(groups, taken.normalize(), is4)...), nil
}

// tiersOf returns the tiers of groups without the holes, which are normal.
func tiersOf(groups []intervals, holes intervals, is4 bool) []*Tier {
	var tiers []*Tier
	for _, g := range groups {
		if t := newTier(g, holes, is4); len(t.list) > 0 {
			tiers = append(tiers, t)
		}
	}
	return tiers
}

// family reports whether the choice is of IPv4, and returns an error if it is of both families.
func (c Choice) family() (is4 bool, err error) {
	var first Range
	for _, o := range c.Ranges {
		switch {
		case !first.prefix.IsValid():
			first = o.Range
		case o.Range.prefix.IsValid() && o.Range.is4() != first.is4():
			return false, fmt.Errorf("choosing addresses: ranges %s and %s are of two families; draw from each family by itself", first, o.Range)
		}
	}
	return first.is4(), nil
}

// groups returns the usable addresses of each priority, the highest one first.
func (c Choice) groups() []intervals {
	var groups []intervals
	sorted := slices.SortedFunc(slices.Values(c.Ranges), byPriority)
	for i, o := range sorted {
		if i == 0 || o.Priority != sorted[i-1].Priority {
			groups = append(groups, nil)
		}
		if iv, ok := o.Range.usable(); ok {
			last := len(groups) - 1
			groups[last] = append(groups[last], iv)
		}
	}
	return groups
}

func byPriority(a, b Candidate) int { return cmp.Compare(b.Priority, a.Priority) }

// static returns the static bands of all candidates.
func (c Choice) static() intervals {
	var list intervals
	for _, o := range c.Ranges {
		if iv, ok := o.Range.band(Static); ok {
			list = append(list, iv)
		}
	}
	return list
}

func (c Choice) excluded(is4 bool) intervals {
	var list intervals
	for _, s := range c.Exclude {
		list = list.with(s, is4)
	}
	return list
}
