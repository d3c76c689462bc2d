package allocator_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/clusterip-operator/clusterip-operator/allocator"
)

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

// TestOwnIsSeldomMissedAmongMany holds the formula in the comment of Draw to what happens: an eighth of one's share of
// many free addresses is left.
func TestOwnIsSeldomMissedAmongMany(t *testing.T) {
	for name, list := range map[string][]allocator.Span{"one run": {span("10.0.0.0-10.0.127.255")}, "many runs": manySpans(600)} {
		t.Run(name, func(t *testing.T) {
			tier, shard := tierOf(t, list...), allocator.NewShard(three, "b")
			p, rng := allocator.NewPool(allocator.WithRand(rand.NewPCG(24, 0))), seeded(25)
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

// TestReplicasFillATierTogether plays three replicas, one busier than the others, that hear of one another's draws up to
// 20 draws late. What is one's own and not scarce they hand out at once; for anything else they wait until they have heard
// everything and draw again, as whoever writes a claim does. No address goes to two of them, up to the last one.
func TestReplicasFillATierTogether(t *testing.T) {
	for _, prefix := range []string{"10.0.0.0/20", "fd00::/118", "10.0.0.0/26"} {
		for seed := range uint64(5) {
			t.Run(fmt.Sprintf("%s, seed %d", prefix, seed), func(t *testing.T) {
				c := from(t, prefix)
				r := newReplicas(t, c, seed)
				for range usable(c) {
					r.draw(t, three[[]int{0, 0, 0, 1, 2}[r.rng.IntN(5)]])
				}
				if seed == 0 && prefix != "10.0.0.0/26" && r.atOnce < len(usable(c))/3 {
					t.Errorf("only %d of %d addresses were handed out at once", r.atOnce, len(usable(c)))
				}
			})
		}
	}
}

// replicasOfTest are processes, each with a view of its own, and what has really happened.
type replicasOfTest struct {
	rng    *rand.Rand
	pools  map[string]*allocator.Pool
	tiers  map[string][]*allocator.Tier
	heard  map[string]int // how much of news
	news   []netip.Addr
	owner  map[netip.Addr]string
	atOnce int
}

func newReplicas(t *testing.T, c allocator.Choice, seed uint64) *replicasOfTest {
	t.Helper()
	r := &replicasOfTest{
		rng: seeded(seed), pools: map[string]*allocator.Pool{}, tiers: map[string][]*allocator.Tier{}, heard: map[string]int{}, owner: map[netip.Addr]string{},
	}
	for i, me := range three {
		r.pools[me] = allocator.NewPool(allocator.WithRand(rand.NewPCG(seed, uint64(i))))
		r.tiers[me] = lotOf(t, c).Tiers
	}
	return r
}

// hear tells me everything but the last few draws.
func (r *replicasOfTest) hear(me string, late int) {
	for ; r.heard[me] < len(r.news)-late; r.heard[me]++ {
		r.pools[me].Observe(r.news[r.heard[me]], allocator.Allocated)
	}
}

func (r *replicasOfTest) draw(t *testing.T, me string) {
	t.Helper()
	lot := allocator.Lot{Tiers: r.tiers[me], Shard: fleetOfThree[me]}
	r.hear(me, r.rng.IntN(21))
	d, err := r.pools[me].Draw(lot)
	if err == nil && d.Own && !d.Scarce {
		r.atOnce++
	} else {
		if err == nil {
			r.pools[me].Forget(d.Addr)
		}
		r.hear(me, 0)
		d, err = r.pools[me].Draw(lot)
	}
	if err != nil {
		t.Fatalf("draw %d: %v", len(r.news), err)
	}
	if other, taken := r.owner[d.Addr]; taken {
		t.Fatalf("draw %d: %s drew %+v, which %s had", len(r.news), me, d, other)
	}
	r.owner[d.Addr] = me
	r.news = append(r.news, d.Addr)
}
