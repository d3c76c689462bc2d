package allocator

import (
	"cmp"
	"fmt"
	"slices"
)

// Choice says where Pool.Reserve may draw an address. All its ranges are of one family.
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
	// YieldCooling draws, when nothing else is free, the address that has been cooling for longest among all
	// candidates. Otherwise cooling addresses are not drawn.
	YieldCooling bool
}

// Candidate is a Range with the Priority it is drawn from with; higher ones come first.
type Candidate struct {
	Range    Range
	Priority int
}

// family reports whether the choice is of IPv4, and returns an error if it is of both families.
func (c Choice) family() (is4 bool, err error) {
	var first Range
	for _, o := range c.Ranges {
		switch {
		case !first.prefix.IsValid():
			first = o.Range
		case o.Range.prefix.IsValid() && o.Range.is4() != first.is4():
			return false, fmt.Errorf("drawing an address: ranges %s and %s are of two families; draw from each family by itself", first, o.Range)
		}
	}
	return first.is4(), nil
}

// plan is a Choice in numbers. Its lists are used again for every draw, so that drawing allocates nothing.
type plan struct {
	sorted   []Candidate
	groups   []group   // in descending order of priority
	usable   intervals // the usable addresses of all groups, group by group, each part normal
	excluded intervals // normal
	avoided  intervals // what is excluded or static in some candidate, normal
	rest     intervals // what remains of a group without some of that
	open     []stretch // the same with what is used of it
}

// group is the part of plan.usable that belongs to one priority.
type group struct{ from, to int }

// prepare turns a Choice into a plan.
func (p *plan) prepare(c Choice, is4 bool) {
	p.groups, p.usable, p.excluded, p.avoided = p.groups[:0], p.usable[:0], p.excluded[:0], p.avoided[:0]
	for _, sp := range c.Exclude {
		p.excluded = p.excluded.with(sp, is4)
	}
	p.excluded = p.excluded.normalize()
	p.avoided = append(p.avoided, p.excluded...)
	for _, o := range c.Ranges {
		if iv, ok := o.Range.band(Static); ok {
			p.avoided = append(p.avoided, iv)
		}
	}
	p.avoided = p.avoided.normalize()
	p.gather(c.Ranges)
}

// gather fills groups and usable.
func (p *plan) gather(candidates []Candidate) {
	p.sorted = append(p.sorted[:0], candidates...)
	slices.SortFunc(p.sorted, byPriority)
	for i := 0; i < len(p.sorted); {
		from, priority := len(p.usable), p.sorted[i].Priority
		for ; i < len(p.sorted) && p.sorted[i].Priority == priority; i++ {
			if iv, ok := p.sorted[i].Range.usable(); ok {
				p.usable = append(p.usable, iv)
			}
		}
		p.usable = p.usable[:from+len(p.usable[from:].normalize())]
		p.groups = append(p.groups, group{from, len(p.usable)})
	}
}

func byPriority(a, b Candidate) int { return cmp.Compare(b.Priority, a.Priority) }

// without returns what remains of a group when the normal list holes is taken away.
func (p *plan) without(g group, holes intervals) intervals {
	p.rest = p.rest[:0]
	for _, iv := range p.usable[g.from:g.to] {
		p.rest = holes.cutFrom(iv, p.rest)
	}
	return p.rest
}

// everything returns the usable addresses of all groups, each once, without the holes. It spends the plan.
func (p *plan) everything(holes intervals) intervals {
	p.usable = p.usable.normalize()
	return p.without(group{0, len(p.usable)}, holes)
}

// ranges returns the ranges of a choice, each once.
func (c Choice) ranges() []Range {
	var list []Range
	for _, o := range c.Ranges {
		if !slices.Contains(list, o.Range) {
			list = append(list, o.Range)
		}
	}
	return list
}
