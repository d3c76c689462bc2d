package addressindex

import (
	"net/netip"
	"slices"
	"time"

	"github.com/clusterip-operator/clusterip-operator/allocator"
)

const (
	// rememberedReleases is how many of the addresses that came free, in all ranges, are remembered. Where hundreds come and go in a second, that covers
	// less than recently.
	rememberedReleases = 64
	// recently is how long a release counts, for two things. A full range is worth waiting for while addresses come free there. And an address that came
	// free is left alone while there are others, because the API server may not be through with it: its repair loop and its deletion of the Service both
	// delete the IPAddress by its name, and the later deletion hits the IPAddress of the next Service.
	recently = time.Second
	// redraws is how many other addresses are looked at instead of one that came free recently.
	redraws = 3
)

// releases are the addresses that came free last, in a ring. The zero releases are none.
type releases struct {
	ring [rememberedReleases]release
	next int
}

type release struct {
	address netip.Addr
	at      time.Time
}

func (r *releases) add(a netip.Addr, now time.Time) {
	r.ring[r.next] = release{a, now}
	r.next = (r.next + 1) % rememberedReleases
}

// Room changes whenever an address comes free, anywhere: until then what was full is full. It costs a load.
func (l *Index) Room() uint64 { return l.room.Load() }

// Moving reports whether ranges that are full may have room again in a moment: one of their addresses is in flight, or came free recently, so
// that Services come and go there. It visits each address in flight.
func (l *Index) Moving(order []*allocator.Tier) bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	for a := range l.inFlight { // mostly few
		if within(order, a) {
			return true
		}
	}
	now := l.clock.Now()
	return slices.ContainsFunc(l.released.ring[:], func(r release) bool { return now.Sub(r.at) < recently && within(order, r.address) })
}

func within(order []*allocator.Tier, a netip.Addr) bool {
	return slices.ContainsFunc(order, func(t *allocator.Tier) bool { return t.Contains(a) })
}

// drawFree draws a free address, if possible none that came free recently; the caller holds mu. Instead of such an address it takes another one of the
// same tier, or the one of some that came free first.
func (l *Index) drawFree(order []*allocator.Tier) (allocator.Drawn, error) {
	first, err := l.pool.Draw(allocator.Request{Tiers: order})
	if err != nil || l.freed(first.Addr).IsZero() {
		return first, err
	}
	tier := slices.IndexFunc(order, func(t *allocator.Tier) bool { return t.Contains(first.Addr) })
	drawn := []allocator.Drawn{first}
	for len(drawn) <= redraws && !l.freed(drawn[len(drawn)-1].Addr).IsZero() {
		other, err := l.pool.Draw(allocator.Request{Tiers: order[tier : tier+1]})
		if err != nil {
			break
		}
		drawn = append(drawn, other)
	}
	best := slices.MinFunc(drawn, func(a, b allocator.Drawn) int { return l.freed(a.Addr).Compare(l.freed(b.Addr)) })
	for _, d := range drawn {
		if d != best {
			l.pool.Forget(d.Addr)
		}
	}
	return best, nil
}

// freed is when an address came free recently, the zero time if it did not; the caller holds mu.
func (l *Index) freed(a netip.Addr) time.Time {
	now := l.clock.Now()
	for _, r := range l.released.ring {
		if r.address == a && now.Sub(r.at) < recently {
			return r.at
		}
	}
	return time.Time{}
}

// Full reports whether Draw would find nothing now. It changes nothing.
func (l *Index) Full(order []*allocator.Tier) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	drawn, err := l.pool.Draw(allocator.Request{Tiers: order, Yield: true})
	if err != nil {
		_, yields := l.oldestInFlight(order)
		return !yields
	}
	l.pool.Forget(drawn.Addr)
	if c, ok := l.cooling[drawn.Addr]; ok {
		l.pool.Cool(drawn.Addr, c.Released)
	}
	return false
}
