package allocator

import (
	"errors"
	"math/rand/v2"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
)

// owners knows which client has an address now. A client enters its number when it gets one, and
// crosses it out before it gives it back; two at a time are a double allocation.
type owners map[netip.Addr]*atomic.Int64

// live is one client's life: it draws and chooses addresses, keeps some of them for a while, and
// leaves with a few of them, whose number it returns.
func (o owners) live(t *testing.T, p *Pool, tiers []*Tier, who int64) (kept int64) {
	rng := seeded(uint64(who))
	var mine []netip.Addr
	for range 400 {
		a := get(t, p, tiers, rng)
		if a.IsValid() && !o[a].CompareAndSwap(0, who) {
			t.Errorf("%s went to %d, while %d has it", a, who, o[a].Load())
		}
		switch {
		case !a.IsValid():
		case rng.IntN(3) == 0:
			o[a].Store(0)
			p.Forget(a)
		default:
			p.Release(a) // late news of the one before
			p.Observe(a, Allocated)
			mine = append(mine, a)
		}
		if len(mine) > 10 || len(mine) > 0 && !a.IsValid() {
			o[mine[0]].Store(0)
			if rng.IntN(2) == 0 {
				p.Cool(mine[0], at(rng.IntN(1000)))
			} else {
				p.Release(mine[0])
			}
			mine = mine[1:]
		}
		if u := p.Usage(span("10.0.0.0-10.0.1.255")); u.Size != u.Allocated+u.Reserved+u.Cooling+u.Free {
			t.Errorf("usage does not add up: %+v", u)
		}
	}
	return int64(len(mine))
}

// get draws or chooses an address; it returns none if there is none.
func get(t *testing.T, p *Pool, tiers []*Tier, rng *rand.Rand) netip.Addr {
	a := shifted(addr("10.0.0.1"), rng.Int64N(254))
	if rng.IntN(4) == 0 {
		if p.Assume(a) {
			return a
		}
		return netip.Addr{}
	}
	d, err := p.Draw(Request{Tiers: tiers, Yield: rng.IntN(2) == 0})
	if err != nil && !errors.Is(err, ErrFull) {
		t.Error(err)
	}
	return d.Addr
}

// TestNobodyGetsAnAddressTwice has 32 clients at ranges that are too small for all.
func TestNobodyGetsAnAddressTwice(t *testing.T) {
	p, tiers, o := NewPool(), requestOf(t, "10.0.0.0/24", "10.0.0.0/26", "10.0.1.0/28").Tiers, owners{}
	for _, a := range addrsOf(span("10.0.0.1-10.0.0.254"), span("10.0.1.1-10.0.1.14")) {
		o[a] = new(atomic.Int64)
	}
	var kept atomic.Int64
	var wg sync.WaitGroup
	for who := int64(1); who <= 32; who++ {
		wg.Go(func() { kept.Add(o.live(t, p, tiers, who)) })
	}
	wg.Wait()
	if got := p.Usage(all4).Allocated; got != uint64(kept.Load()) {
		t.Errorf("%d addresses are in use, but %d were kept", got, kept.Load())
	}
	if err := p.check(); err != nil {
		t.Error(err)
	}
}
