package allocator

import (
	"math/bits"
	"math/rand/v2"
)

// maxTries is how many addresses of a tier are tried at random before what is free in it is counted.
const maxTries = 64

// opening is a run of a tier with what is free in it.
type opening struct {
	stretch
	start uint128 // free addresses of the tier before the run
}

// draw makes a free address used, one of the first tier that has any.
func (p *Pool) draw(f *family, l Lot) (a uint128, ok bool) {
	for _, t := range l.Tiers {
		if len(t.runs()) == 0 {
			continue
		}
		if a, ok := p.probe(f, t); ok {
			return a, true
		}
		if free := p.openUp(f, t); !free.isZero() {
			k := p.below(free)
			o := p.opening(k)
			return f.used.take(o.stretch, k.sub(o.start)), true
		}
	}
	return uint128{}, false
}

// probe tries addresses of the tier at random until one is free. Each free one is equally likely. Counting what is
// free costs about as much as trying once for every run: that bounds the tries, so that trying in vain at most
// doubles the costs. For a tier of one run, counting is as good.
func (p *Pool) probe(f *family, t *Tier) (a uint128, ok bool) {
	for range min(len(t.list)-1, maxTries) {
		if a := t.at(p.below(t.size)); f.used.insert(a) {
			return a, true
		}
	}
	return uint128{}, false
}

// openUp counts what is free in a tier and notes where.
func (p *Pool) openUp(f *family, t *Tier) (free uint128) {
	p.open = p.open[:0]
	for _, iv := range t.list {
		st := f.used.stretch(iv)
		if n := st.free(); !n.isZero() {
			p.open = append(p.open, opening{st, free})
			free = free.add(n)
		}
	}
	return free
}

// opening returns the run that has the free address with k others before it, of those that openUp has found.
func (p *Pool) opening(k uint128) opening {
	low, size := 0, len(p.open)
	for size > 1 {
		half := size / 2
		low += half &^ k.lessMask(p.open[low+half].start)
		size -= half
	}
	return p.open[low]
}

// yield makes the address that has been cooling for longest in any of the tiers nobody's, if the lot wants that. It
// stays used.
func (f *family) yield(l Lot) (a uint128, ok bool) {
	if !l.Yield {
		return uint128{}, false
	}
	var oldest *rester
	for _, t := range l.Tiers {
		oldest = f.cooling.oldest(t.runs(), oldest)
	}
	if oldest == nil {
		return uint128{}, false
	}
	return oldest.addr, f.cooling.remove(oldest.addr)
}

// full explains why there was nothing to draw.
func (f *family) full(l Lot) error {
	var total Usage
	var size uint128
	for _, iv := range l.union() {
		u := f.usage(iv)
		size = size.add(iv.size())
		total.Allocated += u.Allocated
		total.Reserved += u.Reserved
		total.Cooling += u.Cooling
	}
	return &FullError{total.of(size.saturated())}
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

// runtimeSource is the generator of the runtime: seeded by the system, ChaCha8.
type runtimeSource struct{}

// Uint64 implements rand.Source.
func (runtimeSource) Uint64() uint64 { return rand.Uint64() }
