package allocator

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"
)

// check returns an error that names the first promise that the tree breaks.
func (g *aging) check() error {
	n, err := g.root.check(uint128{}, ones(128))
	if err == nil && n != g.n {
		err = fmt.Errorf("the tree claims %d addresses, it has %d", g.n, n)
	}
	return err
}

func (t *aged) check(first, last uint128) (n int, err error) {
	if t == nil {
		return 0, nil
	}
	if t.addr.less(first) || last.less(t.addr) {
		return 0, fmt.Errorf("%s is out of order", t.addr)
	}
	oldest := t
	for _, below := range []*aged{t.left, t.right} {
		switch {
		case below == nil:
			continue
		case t.weight < below.weight:
			return 0, fmt.Errorf("%s is below a lighter node", below.addr)
		case below.oldest.before(oldest):
			oldest = below.oldest
		}
	}
	if t.oldest != oldest {
		return 0, fmt.Errorf("the oldest below %s is %s, not %s", t.addr, oldest.addr, t.oldest.addr)
	}
	left, err := t.left.check(first, t.addr)
	if err != nil {
		return 0, err
	}
	right, err := t.right.check(t.addr, last)
	return left + 1 + right, err
}

// slowAges is Ages that asks about every address.
type slowAges map[netip.Addr]time.Time

func (s slowAges) oldest(in func(netip.Addr) bool) (best netip.Addr) {
	for a, since := range s {
		older := !best.IsValid() || since.Before(s[best]) || since.Equal(s[best]) && a.Less(best)
		if in(a) && older {
			best = a
		}
	}
	return best
}

// TestAgesAgainstAnOracle: what is there, and what is oldest, of all and of any tiers, after each
// of many random steps.
func TestAgesAgainstAnOracle(t *testing.T) {
	for seed := range uint64(20) {
		random, real, slow := seeded(seed), &Ages{}, slowAges{}
		for step := range 600 {
			ground := grounds[random.IntN(2)]
			a := ground[random.IntN(len(ground))]
			if random.IntN(3) == 0 {
				_, known := slow[a]
				if got := real.Remove(a); got != known {
					t.Fatalf("walk %d, step %d: removing %s: %v, want %v", seed, step, a, got, known)
				}
				delete(slow, a)
			} else {
				slow[a] = at(random.IntN(50))
				real.Put(a, slow[a])
			}
			tiers := randomTiers(t, random, ground)
			want := slow.oldest(func(a netip.Addr) bool {
				return slices.ContainsFunc(tiers, func(t *Tier) bool { return t.Contains(a) })
			})
			if got, since, ok := real.OldestIn(tiers); got != want || ok != want.IsValid() || !since.Equal(slow[want]) {
				t.Fatalf("walk %d, step %d: the oldest of the tiers is %s since %s, want %s", seed, step, got, since, want)
			}
			want = slow.oldest(func(netip.Addr) bool { return true })
			if got, since, _ := real.Oldest(); !since.Equal(slow[want]) || !slow[got].Equal(since) {
				t.Fatalf("walk %d, step %d: the oldest is %s since %s, want %s", seed, step, got, since, want)
			}
			if since, ok := real.Since(a); !since.Equal(slow[a]) || ok != !slow[a].IsZero() || real.Len() != len(slow) {
				t.Fatalf("walk %d, step %d: %s is there since %s; all are %d, want %d", seed, step, a, since, real.Len(), len(slow))
			}
			for _, g := range []*aging{&real.four, &real.six} {
				if err := g.check(); err != nil {
					t.Fatalf("walk %d, step %d: %v", seed, step, err)
				}
			}
		}
	}
}

// randomTiers returns up to three tiers of some addresses: some of one run, some of many.
func randomTiers(t *testing.T, random *rand.Rand, ground []netip.Addr) (tiers []*Tier) {
	for range random.IntN(4) {
		var list []Span
		for range 1 + random.IntN(30) {
			first := ground[random.IntN(len(ground))]
			list = append(list, Span{first, shifted(first, int64(random.IntN(3)))})
		}
		tiers = append(tiers, tierOf(t, list...))
	}
	return tiers
}

// TestAgesOfNoAddress: what is no plain address is never there, and two families are no tiers.
func TestAgesOfNoAddress(t *testing.T) {
	var g Ages
	for _, a := range []netip.Addr{{}, addr("fe80::1%eth0")} {
		g.Put(a, at(1))
		if _, ok := g.Since(a); ok || g.Remove(a) || g.Len() != 0 {
			t.Errorf("%s is there", a)
		}
	}
	g.Put(addr("10.0.0.1"), at(1))
	two := []*Tier{tierOf(t, span("10.0.0.1-10.0.0.2")), tierOf(t, span("fd00::1-fd00::2"))}
	if a, _, ok := g.OldestIn(two); ok {
		t.Errorf("%s is the oldest of two families", a)
	}
	if a, _, ok := g.OldestIn(nil); ok {
		t.Errorf("%s is the oldest of nothing", a)
	}
}

// BenchmarkOldestIn asks for the oldest of one run, of ten and of 1,000, while most of what is
// there is elsewhere.
func BenchmarkOldestIn(b *testing.B) {
	for _, runs := range []int{1, 10, 1000} {
		for _, n := range []int{1000, 65_000} {
			b.Run(fmt.Sprintf("runs=%d/n=%d", runs, n), func(b *testing.B) {
				var g Ages
				random := seeded(3)
				for i := range n {
					g.Put(shifted(addr("10.0.0.0"), int64(random.IntN(1<<22))), at(i))
				}
				tiers := []*Tier{benchTier(b, runs)}
				b.ReportAllocs()
				for b.Loop() {
					g.OldestIn(tiers)
				}
			})
		}
	}
}
