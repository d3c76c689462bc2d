package allocator

import (
	"math/bits"
	"math/rand/v2"
)

// draw makes a free address used, looking for it in the order that Choice tells. The plan is prepared.
func (p *Pool) draw(f *family) (a uint128, ok bool) {
	for _, holes := range [...]intervals{p.plan.avoided, p.plan.excluded} {
		for _, g := range p.plan.groups {
			if a, ok := p.drawFrom(f, p.plan.without(g, holes)); ok {
				return a, true
			}
		}
	}
	return uint128{}, false
}

// drawFrom draws from disjoint intervals: count what is free, draw a number below that, use the address that
// has so many free ones before it.
func (p *Pool) drawFrom(f *family, list intervals) (a uint128, ok bool) {
	var total uint128
	p.plan.open = p.plan.open[:0]
	for _, iv := range list {
		st := f.used.stretch(iv)
		p.plan.open = append(p.plan.open, st)
		total = total.add(st.free())
	}
	if total.isZero() {
		return uint128{}, false
	}
	k := p.below(total)
	for _, st := range p.plan.open {
		if k.less(st.free()) {
			return f.used.take(st, k), true
		}
		k = k.sub(st.free())
	}
	panic("allocator: the free addresses of the stretches do not add up to their total")
}

// below returns a random number below n, each equally likely. Two empty /64 ranges have 2^65 addresses, so n
// may have more than 64 bits; those are drawn from the next power of two until one fits, twice on average.
func (p *Pool) below(n uint128) uint128 {
	if n.hi == 0 {
		return uint128{0, p.below64(n.lo)}
	}
	mask := ones(64 + bits.Len64(n.hi)).hi
	for {
		if k := (uint128{p.rand.Uint64() & mask, p.rand.Uint64()}); k.less(n) {
			return k
		}
	}
}

// below64 is below for 64 bits: the upper half of a product with a random number, drawn again in the rare
// case that would favour some results over others (Lemire, "Fast Random Integer Generation in an Interval").
func (p *Pool) below64(n uint64) uint64 {
	k, rest := bits.Mul64(p.rand.Uint64(), n)
	if rest < n {
		for biased := -n % n; rest < biased; {
			k, rest = bits.Mul64(p.rand.Uint64(), n)
		}
	}
	return k
}

// full explains why there was nothing to draw.
func (p *Pool) full(f *family, c Choice) error {
	var total Usage
	var size uint128
	for _, iv := range p.plan.everything(nil) {
		u := f.usage(iv)
		size = size.add(iv.size())
		total.Allocated += u.Allocated
		total.Reserved += u.Reserved
		total.Cooling += u.Cooling
	}
	total = total.of(size.saturated())
	// What is free would have been drawn, had it not been excluded.
	return &FullError{Ranges: c.ranges(), Usage: total, Excluded: total.Free}
}

// runtimeSource is the generator of the runtime: seeded by the system, ChaCha8.
type runtimeSource struct{}

// Uint64 implements rand.Source.
func (runtimeSource) Uint64() uint64 { return rand.Uint64() }
