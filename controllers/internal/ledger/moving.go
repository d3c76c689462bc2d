package ledger

import (
	"net/netip"
	"slices"
	"time"

	"github.com/clusterip-operator/clusterip-operator/allocator"
)

const (
	// remembered is how many of the addresses that came free, in all ranges, are remembered. Where hundreds come and go in a second, that is less than lately.
	remembered = 64
	// lately is how long they count. It is shorter than the time that a creation has: a refusal that can be repeated is better than one that comes too late.
	lately = time.Second
)

// releases are the addresses that came free last, in a ring. The zero releases are none.
type releases struct {
	ring [remembered]release
	next int
}

type release struct {
	address netip.Addr
	at      time.Time
}

func (r *releases) note(a netip.Addr, now time.Time) {
	r.ring[r.next] = release{a, now}
	r.next = (r.next + 1) % remembered
}

// Room changes whenever an address comes free, anywhere: until then what was full is full. It costs a load.
func (l *Ledger) Room() uint64 { return l.room.Load() }

// Moving reports whether ranges that are full may have room again in a moment: an address of the tiers was handed out that the cluster does not show yet, or
// one came free a short while ago, so that Services come and go there. It costs a look-up for each assumed address, and some more.
func (l *Ledger) Moving(tiers []*allocator.Tier) bool {
	within := func(a netip.Addr) bool {
		return slices.ContainsFunc(tiers, func(t *allocator.Tier) bool { return t.Contains(a) })
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	for a := range l.assumed { // empty at rest
		if within(a) {
			return true
		}
	}
	now := l.clock.Now()
	return slices.ContainsFunc(l.released.ring[:], func(r release) bool { return now.Sub(r.at) < lately && within(r.address) })
}
