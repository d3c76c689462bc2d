package allocator_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/clusterip-operator/clusterip-operator/allocator"
)

var three = []string{"a", "b", "c"}

// parts counts the free addresses of a tier by owner.
type parts map[string]int

func partsOf(p *allocator.Pool, tier *allocator.Tier) parts {
	n := parts{}
	for _, me := range three {
		n[me] = 0
	}
	for _, a := range addrsOf(tier) {
		if p.State(a) == allocator.Free {
			n[partOf(a)]++
		}
	}
	return n
}

var fleetOfThree = fleetOf(three...)

func partOf(a netip.Addr) string {
	for _, me := range three[1:] {
		if fleetOfThree[me].Owns(a) {
			return me
		}
	}
	return three[0]
}

func (n parts) least() int { return min(n["a"], n["b"], n["c"]) }

// TestScarceIsExactAtFirst: with a tier that nobody has asked about, it is true exactly where a part has fewer than 32.
func TestScarceIsExactAtFirst(t *testing.T) {
	for _, list := range [][]allocator.Span{{span("10.0.0.0-10.0.0.199")}, spans("fd00::-fd00::3f fd00::50-fd00::5f fd00::100-fd00::178")} {
		p, seen := allocator.NewPool(), map[bool]int{}
		for {
			tier := tierOf(t, list...)
			d, err := p.Draw(allocator.Lot{Tiers: []*allocator.Tier{tier}, Shard: allocator.NewShard(three, "b")})
			if err != nil {
				break
			}
			if n := partsOf(p, tier); d.Scarce != (n.least() < 32) {
				t.Fatalf("scarce: %v, but the parts have %v", d.Scarce, n)
			}
			seen[d.Scarce]++
		}
		if seen[false] < 20 || seen[true] < 100 {
			t.Errorf("scarce or not: %v times", seen)
		}
	}
}

// TestNotScarceIsTrue: while addresses come and go, and a tier remembers, nobody is told that there is enough when there
// is not; and when there is enough for long enough, that is said.
func TestNotScarceIsTrue(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			rng, p := seeded(seed), allocator.NewPool(allocator.WithRand(rand.NewPCG(seed, 1)))
			tier := tierOf(t, span("10.0.0.0-10.0.0.255"), span("10.0.1.0-10.0.1.63"))
			n, list, late := partsOf(p, tier), addrsOf(tier), 0
			for i := range 4000 {
				wave := i / 500 % 2 * 80 // filling and emptying in turn
				for range rng.IntN(4) {
					a := list[rng.IntN(len(list))]
					if fill := rng.IntN(100) < 15+wave; fill && p.State(a) == allocator.Free {
						p.Observe(a, allocator.Allocated)
						n[partOf(a)]--
					} else if !fill && p.State(a) != allocator.Free {
						p.Release(a)
						n[partOf(a)]++
					}
				}
				d, err := p.Draw(allocator.Lot{Tiers: []*allocator.Tier{tier}, Shard: allocator.NewShard(three, three[rng.IntN(3)])})
				if err != nil {
					continue
				}
				if rng.IntN(20) < wave/40 { // somebody who shares with nobody draws too
					if d, err := p.Draw(allocator.Lot{Tiers: []*allocator.Tier{tier}}); err == nil {
						p.Commit(d.Addr)
						n[partOf(d.Addr)]--
					}
				}
				least := n.least()
				if n[partOf(d.Addr)]-1 < least {
					least = n[partOf(d.Addr)] - 1
				}
				if !d.Scarce && least < 32 {
					t.Fatalf("step %d: %s is not scarce, but the parts have %v", i, d.Addr, n)
				}
				if late++; !d.Scarce || least < 32 {
					late = 0
				}
				if late > 16 {
					t.Fatalf("step %d: scarce for %d draws, though the parts have %v", i, late, n)
				}
				p.Forget(d.Addr)
			}
		})
	}
}

// TestScarceByTier: what counts is the tier that was drawn from and who shares it.
func TestScarceByTier(t *testing.T) {
	large, small := tierOf(t, rangeOf(t, "10.0.0.0/20").Band(allocator.Dynamic)), tierOf(t, rangeOf(t, "10.1.0.0/28").Span())
	huge := tierOf(t, rangeOf(t, "fd00::/64").Span(), rangeOf(t, "fd00:0:0:1::/64").Span())
	for name, tc := range map[string]struct {
		tiers   []*allocator.Tier
		members []string
		want    bool
	}{
		"a large one":                 {[]*allocator.Tier{large, small}, three, false},
		"a small one":                 {[]*allocator.Tier{small, large}, three, true},
		"a small one, unshared":       {[]*allocator.Tier{small}, three[1:2], false},
		"a huge one":                  {[]*allocator.Tier{huge}, three, false},
		"a large one, among too many": {[]*allocator.Tier{large}, append(replicas(200), "b"), true},
	} {
		t.Run(name, func(t *testing.T) {
			p := allocator.NewPool()
			for range 3 {
				d, err := p.Draw(allocator.Lot{Tiers: tc.tiers, Shard: allocator.NewShard(tc.members, "b")})
				if err != nil || d.Scarce != tc.want {
					t.Errorf("got %+v, %v, want scarce %v", d, err, tc.want)
				}
			}
		})
	}
	d, err := allocator.NewPool().Draw(allocator.Lot{Tiers: []*allocator.Tier{small}})
	if err != nil || d.Scarce {
		t.Errorf("with the zero Shard: %+v, %v", d, err)
	}
}

// TestScarceAmongMany: more addresses are free than are counted, but next to none of them is c's.
func TestScarceAmongMany(t *testing.T) {
	for _, list := range [][]allocator.Span{{rangeOf(t, "10.0.0.0/16").Span()}, manySpans(1000)} {
		p, tier := allocator.NewPool(), tierOf(t, list...)
		lot := allocator.Lot{Tiers: []*allocator.Tier{tier}, Shard: allocator.NewShard(three, "b")}
		left := 31
		for _, a := range addrsOf(tier) {
			if partOf(a) == "c" {
				if left--; left < 0 {
					p.Observe(a, allocator.Allocated)
				}
			}
		}
		for range 1000 {
			d, err := p.Draw(lot)
			if err != nil || !d.Scarce || !d.Own {
				t.Fatalf("got %+v, %v, want one's own, scarce", d, err)
			}
			p.Forget(d.Addr)
		}
		// Another pool and other members know nothing of that.
		if d, err := allocator.NewPool().Draw(lot); err != nil || d.Scarce {
			t.Errorf("of another pool: %+v, %v", d, err)
		}
		lot.Shard = allocator.NewShard(three[:2], "b")
		if d, err := p.Draw(lot); err != nil || d.Scarce {
			t.Errorf("for two members: %+v, %v", d, err)
		}
	}
}

// manySpans returns n spans of 60 addresses.
func manySpans(n int) []allocator.Span {
	var list []allocator.Span
	for i := range n {
		first := nth(addr("10.1.0.0"), 100*i)
		list = append(list, allocator.Span{First: first, Last: nth(first, 59)})
	}
	return list
}

// TestWhatYieldsIsScarce: nothing is free when cooling addresses yield.
func TestWhatYieldsIsScarce(t *testing.T) {
	p, lot := allocator.NewPool(), allocator.Lot{Tiers: []*allocator.Tier{tierOf(t, span("10.0.0.1-10.0.0.1"))}, Yield: true}
	for _, members := range []int{1, 3} {
		lot.Shard = allocator.NewShard(three[:members], "a")
		p.Cool(addr("10.0.0.1"), at(1))
		d, err := p.Draw(lot)
		want := allocator.Drawn{Addr: addr("10.0.0.1"), Own: lot.Shard.Owns(addr("10.0.0.1")), Scarce: members > 1, Cooled: true}
		if err != nil || d != want {
			t.Errorf("got %+v, %v, want %+v", d, err, want)
		}
		p.Forget(d.Addr)
	}
}
