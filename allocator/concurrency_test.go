package allocator_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/clusterip-operator/clusterip-operator/allocator"
)

// ledger knows who has an address now. Whoever gets one enters himself, and crosses himself out before he gives it
// back; two at a time are a double allocation.
type ledger struct {
	pool   *allocator.Pool
	owners map[netip.Addr]*atomic.Int64 // all usable addresses; the map itself never changes
	choice candidates
	tiers  []*allocator.Tier
}

func newLedger(t *testing.T, c candidates) *ledger {
	t.Helper()
	l := &ledger{allocator.NewPool(), map[netip.Addr]*atomic.Int64{}, c, lotOf(t, c).Tiers}
	for _, a := range usable(c) {
		l.owners[a] = new(atomic.Int64)
	}
	return l
}

func (l *ledger) enter(a netip.Addr, who int64) error {
	owner, ok := l.owners[a]
	if !ok {
		return fmt.Errorf("%s is no address of the ranges", a)
	}
	if !owner.CompareAndSwap(0, who) {
		return fmt.Errorf("%s went to %d, while %d has it", a, who, owner.Load())
	}
	return nil
}

// giveBack takes one of the ways out of Assumed and Allocated.
func (l *ledger) giveBack(rng *rand.Rand, a netip.Addr, observed bool) {
	l.owners[a].Store(0)
	switch {
	case !observed:
		l.pool.Forget(a)
	case rng.IntN(2) == 0:
		l.pool.Cool(a, at(rng.IntN(1000)))
	default:
		l.pool.Release(a)
	}
}

// live is one Service controller's life: it draws and chooses addresses, keeps some of them for a while, and leaves
// with a few of them, the number of which it returns.
func (l *ledger) live(who int64, rounds int) (kept int, err error) {
	rng := seeded(uint64(who))
	var mine []netip.Addr
	for range rounds {
		a, err := l.get(rng)
		if err != nil {
			return 0, err
		}
		if a.IsValid() {
			if err := l.enter(a, who); err != nil {
				return 0, err
			}
			if rng.IntN(3) == 0 {
				l.giveBack(rng, a, false)
			} else {
				l.settle(rng, a)
				mine = append(mine, a)
			}
		}
		if len(mine) > 10 || len(mine) > 0 && !a.IsValid() {
			l.giveBack(rng, mine[0], true)
			mine = mine[1:]
		}
		l.look(rng)
	}
	return len(mine), nil
}

// get draws or chooses an address; it returns none if there is none.
func (l *ledger) get(rng *rand.Rand) (a netip.Addr, err error) {
	if rng.IntN(4) == 0 {
		a = l.choice.Ranges[0].Span().First
		a = nth(a, rng.IntN(int(l.choice.Ranges[0].Size())))
		if !l.pool.Assume(a) {
			a = netip.Addr{}
		}
		return a, nil
	}
	d, err := l.pool.Draw(allocator.Lot{Tiers: l.tiers, Yield: rng.IntN(2) == 0})
	if errors.Is(err, allocator.ErrFull) {
		return netip.Addr{}, nil
	}
	return d.Addr, err
}

// settle says that a was written; news of the Service before may come late.
func (l *ledger) settle(rng *rand.Rand, a netip.Addr) {
	if rng.IntN(2) == 0 {
		l.pool.Release(a) // news of the one before
	}
	l.pool.Observe(a, allocator.Allocated)
}

// look asks what can be asked while others write.
func (l *ledger) look(rng *rand.Rand) {
	r := l.choice.Ranges[rng.IntN(len(l.choice.Ranges))]
	u := l.pool.Usage(r.Span())
	if u.Size != u.Allocated+u.Reserved+u.Cooling+u.Free {
		panic(fmt.Sprintf("usage does not add up: %+v", u))
	}
	for _, a := range l.pool.Used(r.Span(), 3) {
		l.pool.State(a)
	}
}

// TestNobodyGetsAnAddressTwice has 32 of them at ranges that are too small for all.
func TestNobodyGetsAnAddressTwice(t *testing.T) {
	l := newLedger(t, from(t, "10.0.0.0/24", "10.0.0.0/26", "10.0.1.0/28"))
	var kept atomic.Int64
	var wg sync.WaitGroup
	for who := int64(1); who <= 32; who++ {
		wg.Go(func() {
			n, err := l.live(who, 400)
			if err != nil {
				t.Error(err)
			}
			kept.Add(int64(n))
		})
	}
	wg.Wait()
	var got uint64
	for _, s := range []allocator.Span{span("10.0.0.0-10.0.0.255"), span("10.0.1.0-10.0.1.15")} {
		u := l.pool.Usage(s)
		got += u.Allocated + u.Reserved
	}
	if got != uint64(kept.Load()) {
		t.Errorf("%d addresses are in use, but %d were kept", got, kept.Load())
	}
	if err := l.pool.Check(); err != nil {
		t.Error(err)
	}
}
