package allocator_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/clusterip-operator/clusterip-operator/allocator"
)

var three = []string{"a", "b", "c"}

// manySpans returns n spans of 60 addresses.
func manySpans(n int) []allocator.Span {
	var list []allocator.Span
	for i := range n {
		first := nth(addr("10.1.0.0"), 100*i)
		list = append(list, allocator.Span{First: first, Last: nth(first, 59)})
	}
	return list
}

// TestOwnIsNeverMissedAmongFew: of 4,096 free addresses three are the shard's own, and they come first, each as often as
// the others, however the addresses are spread.
func TestOwnIsNeverMissedAmongFew(t *testing.T) {
	for name, list := range map[string][]allocator.Span{
		"one run": {span("10.0.0.0-10.0.255.255")}, "IPv6": {span("fd00::-fd00::ffff")}, "many runs": manySpans(1100),
	} {
		t.Run(name, func(t *testing.T) {
			for _, used := range []bool{false, true} {
				checkTheOnlyOwnOnes(t, tierOf(t, list...), used)
			}
		})
	}
}

// checkTheOnlyOwnOnes leaves 4,096 addresses of a tier free, with used ones between them or not, of which three are b's.
func checkTheOnlyOwnOnes(t *testing.T, tier *allocator.Tier, used bool) {
	t.Helper()
	p, rng := allocator.NewPool(), seeded(23)
	shard := allocator.NewShard(three, "b")
	own, free := map[netip.Addr]int{}, 0
	for i, a := range addrsOf(tier) {
		switch {
		case shard.Owns(a) && i > 5000 && len(own) < 3:
			own[a] = 0
			free++
		case shard.Owns(a) || free-len(own) >= 4093 || used && rng.IntN(4) == 0:
			p.Observe(a, allocator.Allocated)
		default:
			free++
		}
	}
	lot := allocator.Lot{Tiers: []*allocator.Tier{tier}, Shard: shard}
	for range 90 {
		d, err := p.Draw(lot)
		if _, known := own[d.Addr]; err != nil || !known || !d.Own || free != 4096 {
			t.Fatalf("got %+v, %v of %d, want one of %v", d, err, free, own)
		}
		own[d.Addr]++
		p.Forget(d.Addr)
	}
	for a, n := range own {
		if n < 10 || n > 55 {
			t.Errorf("%s came %d times of 90", a, n)
		}
		p.Observe(a, allocator.Allocated)
	}
	if d, err := p.Draw(lot); err != nil || d.Own {
		t.Errorf("got %+v, %v, want somebody else's", d, err)
	}
}

// TestOnlyOwn: what belongs to others is left to them, and that is said.
func TestOnlyOwn(t *testing.T) {
	for name, list := range map[string][]allocator.Span{"one run": {span("10.0.0.1-10.0.0.60")}, "many runs": manySpans(60)} {
		for _, me := range []string{"b", "a stranger"} {
			t.Run(name+", "+me, func(t *testing.T) {
				p, tier := allocator.NewPool(), tierOf(t, list...)
				lot := allocator.Lot{Tiers: []*allocator.Tier{tier}, Shard: allocator.NewShard(three, me), OnlyOwn: true}
				mine := addrsOf(tier)
				mine = slices.DeleteFunc(mine, func(a netip.Addr) bool { return !lot.Shard.Owns(a) })
				got := drain(t, p, lot)
				slices.SortFunc(got, netip.Addr.Compare)
				if diff := cmp.Diff(mine, got, byEquality); diff != "" {
					t.Errorf("drew (-want +got):\n%s", diff)
				}
				_, err := p.Draw(lot)
				n := tier.Size()
				want := fmt.Sprintf("no free address: of %d to draw from %d are allocated, 0 reserved and 0 cooling; %d are left to others", n, len(mine), int(n)-len(mine))
				if !errors.Is(err, allocator.ErrFull) || err.Error() != want {
					t.Errorf("the error says\n%v, want\n%s", err, want)
				}
			})
		}
	}
}

// TestOwnIsSeldomMissedAmongMany holds the formula in the comment of Draw to what happens: an eighth of one's share of
// many free addresses is left.
func TestOwnIsSeldomMissedAmongMany(t *testing.T) {
	for name, list := range map[string][]allocator.Span{"one run": {span("10.0.0.0-10.0.127.255")}, "many runs": manySpans(600)} {
		t.Run(name, func(t *testing.T) {
			tier, shard := tierOf(t, list...), allocator.NewShard(three, "b")
			p, rng := allocator.NewPoolWith(rand.NewPCG(24, 0)), seeded(25)
			for _, a := range addrsOf(tier) {
				if shard.Owns(a) && rng.IntN(12) > 0 {
					p.Observe(a, allocator.Allocated) // 1 in 12 of the third, 1 in 25 of all that are free
				}
			}
			missed := 0
			for range 20_000 {
				d, err := p.Draw(allocator.Lot{Tiers: []*allocator.Tier{tier}, Shard: shard})
				if err != nil {
					t.Fatal(err)
				}
				if !d.Own {
					missed++
				}
				p.Forget(d.Addr)
			}
			if missed > 20 { // (1-1/25)^192 = 0.04 %, that is 8
				t.Errorf("missed %d of 20,000", missed)
			}
		})
	}
}

// TestReplicasFillATierTogether plays three replicas that know nothing of one another's draws: as long as they get
// addresses of their own, no address goes to two of them.
func TestReplicasFillATierTogether(t *testing.T) {
	for _, prefix := range []string{"10.0.0.0/20", "fd00::/116", "10.0.0.0/26"} {
		t.Run(prefix, func(t *testing.T) {
			c, owner := from(t, prefix), map[netip.Addr]string{}
			lot := lotOf(t, c)
			lot.Tiers = lot.Tiers[:1]
			for _, me := range three {
				p := allocator.NewPool()
				lot.Shard = allocator.NewShard(three, me)
				for d, err := p.Draw(lot); err == nil && d.Own; d, err = p.Draw(lot) {
					if other, taken := owner[d.Addr]; taken {
						t.Fatalf("%s drew %s, which is %s's", me, d.Addr, other)
					}
					owner[d.Addr] = me
				}
			}
			if size := lot.Tiers[0].Size(); len(owner) != int(size) {
				t.Errorf("they drew %d addresses as their own, want all %d", len(owner), size)
			}
		})
	}
}
