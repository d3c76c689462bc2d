package allocator

import (
	"errors"
	"math/bits"
	"net/netip"
	"sort"
)

// Request says where Pool.Draw may draw an address. The zero Request has nothing to draw.
type Request struct {
	// Tiers are asked in order: nothing is drawn from one while a tier before it has a free address.
	// All tiers that have addresses are of one family. They may overlap.
	Tiers []*Tier
	// Yield lets a draw take, when no tier has a free address, the one of all tiers that has been
	// cooling longest. Otherwise cooling addresses are not drawn.
	Yield bool
}

// Drawn is an address that Pool.Draw has made Assumed.
type Drawn struct {
	Addr netip.Addr
	// Cooled says that the address was cooling and had to yield.
	Cooled bool
}

// ErrFull says that a Request leaves nothing to draw.
var ErrFull = errors.New("no free address")

var errTwoFamilies = errors.New("drawing an address: the tiers are of two families; draw from each family by itself")

// family returns the family of the tiers; an error if they are of both. A tier without addresses is
// of neither.
func (r Request) family() (f Family, err error) {
	for _, t := range r.Tiers {
		if len(t.runs()) == 0 {
			continue
		}
		if f != 0 && t.family != f {
			return 0, errTwoFamilies
		}
		f = t.family
	}
	return f, nil
}

// maxTries is how many random addresses of a tier are tried before its free ones are counted.
const maxTries = 64

// opening is a run of a tier that has free addresses.
type opening struct {
	start uint128 // free addresses of the tier before the run
	base  uint128 // free addresses of all the space before the run
}

// draw picks a free address of the first tier that has one, and makes it used.
func (p *Pool) draw(f *familyPool, r Request) (a uint128, ok bool) {
	for _, t := range r.Tiers {
		if len(t.runs()) == 0 {
			continue
		}
		if a, ok := p.probe(f, t); ok {
			return a, true
		}
		if free := p.openUp(f, t); !free.isZero() {
			k := p.below(free)
			o := p.open[sort.Search(len(p.open), func(i int) bool { return k.less(p.open[i].start) })-1]
			a := f.used.nthFree(o.base.add(k.sub(o.start)))
			return a, f.used.insert(a)
		}
	}
	return uint128{}, false
}

// probe tries random addresses of the tier until one is free; each free one is equally likely. To
// count what is free costs about one try per run: that bounds the tries, so that trying in vain at
// most doubles the cost. For a tier of one run, counting is as good.
func (p *Pool) probe(f *familyPool, t *Tier) (a uint128, ok bool) {
	for range min(len(t.list)-1, maxTries) {
		if a := t.at(p.below(t.size)); f.used.insert(a) {
			return a, true
		}
	}
	return uint128{}, false
}

// openUp counts what is free in a tier and notes where.
func (p *Pool) openUp(f *familyPool, t *Tier) (free uint128) {
	p.open = p.open[:0]
	for _, iv := range t.list {
		if n := iv.size().minus(f.used.countIn(iv)); !n.isZero() {
			p.open = append(p.open, opening{free, iv.first.minus(f.used.rank(iv.first))})
			free = free.add(n)
		}
	}
	return free
}

// yield takes the address that has been cooling longest in any of the tiers out of the cooling
// ones, if the request wants that. It stays used.
func (f *familyPool) yield(r Request) (a uint128, ok bool) {
	if r.Yield {
		a, ok = f.cooling.oldest(r.Tiers)
	}
	return a, ok && f.cooling.remove(a)
}

// below returns a random number below n, each equally likely. Two empty /64 ranges have 2^65
// addresses; above 64 bits it draws below the next power of two until one fits, twice on average.
func (p *Pool) below(n uint128) uint128 {
	if n.hi == 0 {
		return uint128{0, p.rand.Uint64N(n.lo)}
	}
	mask := ones(64 + bits.Len64(n.hi)).hi
	for {
		if k := (uint128{p.rand.Uint64() & mask, p.rand.Uint64()}); k.less(n) {
			return k
		}
	}
}
