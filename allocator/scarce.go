package allocator

import "math"

const (
	// scarce is how many free addresses every member's part of a tier needs, so that nobody is about to draw from
	// the parts of others.
	scarce = 32
	// samples is how many free addresses are looked at, for each member, where there are too many to look at all.
	samples = 64
)

// stock is what a Tier remembers of how much is free in the part of each member. It is bound to a pool and to the
// members of a shard, and says something about later as well: every address that comes or goes since then changes a
// part by one at most.
type stock struct {
	pool    *Pool
	members uint64 // which members, see Shard.id
	changes uint64 // of the family, when it was reckoned
	least   uint64 // free addresses of the part that has the fewest; the true number may be larger
	trust   uint64 // after how many changes it may be reckoned again
}

// isScarce reports whether a part of the tier may have fewer free addresses than everybody needs. It errs only
// towards true: it does not reckon again before enough has changed to make that cheap.
func (p *Pool) isScarce(f *family, t *Tier, s Shard) bool {
	if s.members() < 2 {
		return false
	}
	old := t.stock.Load()
	if old != nil && old.pool == p && old.members == s.id {
		since := f.changes - old.changes
		if old.least >= scarce+since {
			return false
		}
		if since < old.trust {
			return true
		}
	}
	now := p.reckon(f, t, s)
	t.stock.Store(now)
	return now.least < scarce
}

// reckon counts what is free in each part, exactly where it is not much, and otherwise by samples.
func (p *Pool) reckon(f *family, t *Tier, s Shard) *stock {
	free := p.openUp(f, t)
	now := &stock{pool: p, members: s.id, changes: f.changes, trust: min(max(16, free.saturated()/64), 256)}
	p.work.parts = append(p.work.parts[:0], make([]uint64, s.members())...)
	if free.hi == 0 && free.lo <= few {
		p.eachFree(f, func(a uint128) { p.work.parts[s.owner(a)]++ })
		now.least = p.smallest()
		return now
	}
	for range samples * s.members() {
		k := p.below(free)
		p.work.parts[s.owner(p.nthFree(f, k))]++
	}
	now.least = atLeast(p.smallest(), samples*s.members(), free)
	return now
}

// smallest returns the smallest of the parts.
func (p *Pool) smallest() uint64 {
	least := uint64(math.MaxUint64)
	for _, n := range p.work.parts {
		least = min(least, n)
	}
	return least
}

// atLeast returns how many of all there are, with four standard deviations to spare, if of so many samples so many
// hit.
func atLeast(hits uint64, of int, all uint128) uint64 {
	share := (float64(hits) - 4*math.Sqrt(float64(hits))) / float64(of)
	return uint64(max(0, share) * float64(min(all.saturated(), 1<<62)))
}
