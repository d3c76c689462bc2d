package ledger

import (
	"net/netip"
	"slices"
	"time"

	"github.com/clusterip-operator/clusterip-operator/allocator"
)

const (
	// untouched is how long an address that came free is left alone while there are others. The API server may not be through with it: its repair loop and its
	// deletion of the Service both delete the IPAddress by its name, and the later one takes that of the next Service away. Then a third one may
	// get the address too.
	untouched = time.Second
	// redraws is how many other addresses are looked at instead.
	redraws = 3
)

// drawn draws an address, if possible none that came free just now; the caller holds mu. Instead of one that did it takes another one of the same tier that
// is as good, or the one that came free first.
func (l *Ledger) drawn(lot allocator.Lot) (allocator.Drawn, error) {
	best, err := l.pool.Draw(lot)
	if err != nil || best.Cooled {
		return best, err
	}
	freed := l.freed(best.Addr)
	if freed.IsZero() {
		return best, nil
	}
	tier := lot.Tiers[tierOf(lot, best.Addr)]
	like := allocator.Lot{Tiers: []*allocator.Tier{tier}, Shard: lot.Shard, OnlyOwn: best.Own} // none that rests: it would rest no more
	var back []netip.Addr
	for tries := 0; tries < redraws && !freed.IsZero(); tries++ {
		other, err := l.pool.Draw(like)
		if err != nil {
			break
		}
		if at := l.freed(other.Addr); at.Before(freed) {
			best, other, freed = other, best, at
		}
		back = append(back, other.Addr)
	}
	for _, a := range back {
		l.pool.Forget(a)
	}
	return best, nil
}

// freed is when an address came free just now, the zero time if it did not; the caller holds mu.
func (l *Ledger) freed(a netip.Addr) time.Time {
	now := l.clock.Now()
	for _, r := range l.released.ring {
		if r.address == a && now.Sub(r.at) < untouched {
			return r.at
		}
	}
	return time.Time{}
}

// tierOf is the place of the first tier with an address.
func tierOf(lot allocator.Lot, a netip.Addr) int {
	return slices.IndexFunc(lot.Tiers, func(t *allocator.Tier) bool { return t.Contains(a) })
}
