package addressindex

import (
	"errors"
	"net/netip"
	"slices"
	"time"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/internal/addressindex/inflight"
)

const (
	// recently is how long a release counts, for two things. A full range is worth waiting for while
	// addresses come free there. And an address that came free is left alone while another is free,
	// because the API server may not be through with it: its repair loop and its deletion of the
	// Service both delete the IPAddress by its name, and the later deletion hits the IPAddress of the
	// next Service.
	recently = time.Second
	// rememberedReleases is how many of the addresses that came free are remembered at most:
	// several times as many as an API server deletes in a second.
	rememberedReleases = 4096
	// redraws is how many other addresses are looked at instead of one that came free recently.
	redraws = 3
)

// releases are the addresses that came free recently. The zero releases are none.
type releases struct{ ages allocator.Ages }

func (r *releases) add(a netip.Addr, now time.Time) {
	r.ages.Put(a, now)
	r.expire(now)
}

func (r *releases) expire(now time.Time) {
	for {
		a, since, ok := r.ages.Oldest()
		if !ok || now.Sub(since) < recently && r.ages.Len() <= rememberedReleases {
			return
		}
		r.ages.Remove(a)
	}
}

// Draw takes an address for a Service, of the first tier in order that has one. It stays in flight
// until the cluster shows it, Forget gives it back, it yields, or 15 seconds have passed.
//
// A free address comes first. When there is none, one that is in flight yields whose Service seems
// not to come (inflight.Flights.Yields says which); and then one that cools down
// (coolDowns.yields): the one that was freed first of the namespace that has most, or of all where
// none has many. The error matches allocator.ErrFull when nothing is left.
func (ix *Index) Draw(order []*allocator.Tier, to Holder) (allocator.Drawn, error) {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	return ix.draw(order, to)
}

// draw is Draw; the caller holds mu.
func (ix *Index) draw(order []*allocator.Tier, to Holder) (allocator.Drawn, error) {
	var yielded *inflight.Flight
	drawn, err := ix.drawFree(order)
	if errors.Is(err, allocator.ErrFull) {
		drawn, yielded, err = ix.drawAgain(order)
	}
	if err != nil {
		return drawn, err
	}
	ix.enterFlight(&inflight.Flight{Address: drawn.Addr, Instead: yielded}, to)
	return drawn, nil
}

// drawAgain draws what is in flight or cools, and returns what yields; the caller holds mu.
func (ix *Index) drawAgain(order []*allocator.Tier) (allocator.Drawn, *inflight.Flight, error) {
	now := ix.clock.Now()
	if f := ix.flights.Yields(order, now); f != nil {
		ix.flights.Replace(f, now)
		return allocator.Drawn{Addr: f.Address}, f, nil
	}
	if a, ok := ix.coolDowns.yields(order); ok && ix.pool.Assume(a) {
		return allocator.Drawn{Addr: a, Cooled: true}, nil, nil
	}
	drawn, err := ix.pool.Draw(allocator.Request{Tiers: order, Yield: true})
	return drawn, nil, err
}

// moving reports whether full ranges may have room in a moment: one of their addresses is in flight
// or came free recently, so Services come and go there. The caller holds mu.
func (ix *Index) moving(order []*allocator.Tier) bool {
	if ix.flights.Moving(order) {
		return true
	}
	ix.released.expire(ix.clock.Now())
	_, _, ok := ix.released.ages.OldestIn(order)
	return ok
}

func within(order []*allocator.Tier, a netip.Addr) bool {
	return slices.ContainsFunc(order, func(t *allocator.Tier) bool { return t.Contains(a) })
}

// drawFree draws a free address, if possible none that came free recently; instead it takes another
// of the same tier, or of some the one that came free first. The caller holds mu.
func (ix *Index) drawFree(order []*allocator.Tier) (allocator.Drawn, error) {
	first, err := ix.pool.Draw(allocator.Request{Tiers: order})
	if err != nil || ix.freed(first.Addr).IsZero() {
		return first, err
	}
	tier := slices.IndexFunc(order, func(t *allocator.Tier) bool { return t.Contains(first.Addr) })
	drawn := []allocator.Drawn{first}
	for len(drawn) <= redraws && !ix.freed(drawn[len(drawn)-1].Addr).IsZero() {
		other, err := ix.pool.Draw(allocator.Request{Tiers: order[tier : tier+1]})
		if err != nil {
			break
		}
		drawn = append(drawn, other)
	}
	best := slices.MinFunc(drawn, func(a, b allocator.Drawn) int { return ix.freed(a.Addr).Compare(ix.freed(b.Addr)) })
	for _, d := range drawn {
		if d != best {
			ix.pool.Forget(d.Addr)
		}
	}
	return best, nil
}

// freed is when an address came free recently, the zero time if it did not; the caller holds mu.
func (ix *Index) freed(a netip.Addr) time.Time {
	if at, ok := ix.released.ages.Since(a); ok && ix.clock.Since(at) < recently {
		return at
	}
	return time.Time{}
}

// Full reports whether Draw would find nothing now. It changes nothing.
func (ix *Index) Full(order []*allocator.Tier) bool {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	drawn, err := ix.pool.Draw(allocator.Request{Tiers: order, Yield: true})
	if err != nil {
		return ix.flights.Yields(order, ix.clock.Now()) == nil
	}
	ix.pool.Forget(drawn.Addr)
	if c, ok := ix.coolDowns.at[drawn.Addr]; ok {
		ix.pool.Cool(drawn.Addr, c.Released)
	}
	return false
}
