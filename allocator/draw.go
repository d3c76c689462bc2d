package allocator

import (
	"math/bits"
	"math/rand/v2"
)

const (
	// patience is how often a draw that finds nobody's or somebody else's address is repeated, for each member
	// of the shard. An address that is one's own is then missed with probability e^-64, as long as one's own
	// addresses are as frequent among the free ones as anywhere else.
	patience = 64
	// haste is the same where the free addresses are few enough to be looked at one by one.
	haste = 8
	// few is how many free addresses are looked at one by one.
	few = 4096
)

// workspace is what Draw works in. It is used again for every draw, so that drawing allocates nothing.
type workspace struct {
	open []opening
	own  []uint128
}

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
		if a, ok := p.probe(f, t, l); ok {
			return a, true
		}
		if free := p.openUp(f, t); !free.isZero() {
			if a, ok := p.drawFree(f, free, l); ok {
				return a, true
			}
		}
	}
	return uint128{}, false
}

// probe tries addresses of the tier at random until one is free and the shard's own; if the shard owns none at all, until
// one is free. Each that qualifies is equally likely. Counting what is free costs about as much as trying once for every run: that bounds the tries, so that
// trying in vain at most doubles the costs. For a tier of one run, counting is as good.
func (p *Pool) probe(f *family, t *Tier, l Lot) (a uint128, ok bool) {
	anyDoes := l.Shard.ownsNone() && !l.OnlyOwn
	for range min(len(t.list)-1, patience*l.Shard.members()) {
		a := t.at(p.below(t.size))
		if (anyDoes || l.Shard.owns(a)) && f.used.insert(a) {
			return a, true
		}
	}
	return uint128{}, false
}

// openUp counts what is free in a tier and notes where.
func (p *Pool) openUp(f *family, t *Tier) (free uint128) {
	p.work.open = p.work.open[:0]
	for _, iv := range t.list {
		st := f.used.stretch(iv)
		if n := st.free(); !n.isZero() {
			p.work.open = append(p.work.open, opening{st, free})
			free = free.add(n)
		}
	}
	return free
}

// drawFree makes one of the free addresses that openUp has found used: one of the shard's own, each equally likely,
// or else any, unless the lot wants only its own.
func (p *Pool) drawFree(f *family, free uint128, l Lot) (a uint128, ok bool) {
	if s := l.Shard; !s.ownsAll() && !s.ownsNone() {
		if a, ok := p.drawOwn(f, free, s); ok {
			f.used.insert(a)
			return a, true
		}
	}
	if l.OnlyOwn && !l.Shard.ownsAll() {
		return uint128{}, false
	}
	k := p.below(free)
	o := p.opening(k)
	return f.used.take(o.stretch, k.sub(o.start)), true
}

// drawOwn draws from the free addresses until the shard owns one. If it never does, it looks at all of them where
// they are few; where they are many, it takes it that there is none.
func (p *Pool) drawOwn(f *family, free uint128, s Shard) (a uint128, ok bool) {
	tries, areFew := patience*s.members(), free.hi == 0 && free.lo <= few
	if areFew {
		tries = haste * s.members()
	}
	for range tries {
		if a := p.nthFree(f, p.below(free)); s.owns(a) {
			return a, true
		}
	}
	if areFew {
		return p.searchOwn(f, s)
	}
	return uint128{}, false
}

// searchOwn looks at all free addresses and draws one of those that the shard owns.
func (p *Pool) searchOwn(f *family, s Shard) (a uint128, ok bool) {
	p.work.own = p.work.own[:0]
	p.eachFree(f, func(a uint128) {
		if s.owns(a) {
			p.work.own = append(p.work.own, a)
		}
	})
	if len(p.work.own) == 0 {
		return uint128{}, false
	}
	return p.work.own[p.below64(uint64(len(p.work.own)))], true
}

// nthFree returns the one of the free addresses that openUp has found with k others before it.
func (p *Pool) nthFree(f *family, k uint128) uint128 {
	o := p.opening(k)
	return f.used.nthFree(o.stretch, k.sub(o.start))
}

// eachFree calls look for the free addresses that openUp has found, in ascending order.
func (p *Pool) eachFree(f *family, look func(uint128)) {
	for _, o := range p.work.open {
		f.used.eachFree(o.stretch, look)
	}
}

// opening returns the run that has the free address with k others before it.
func (p *Pool) opening(k uint128) opening {
	low, size := 0, len(p.work.open)
	for size > 1 {
		half := size / 2
		low += half &^ k.lessMask(p.work.open[low+half].start)
		size -= half
	}
	return p.work.open[low]
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
