package allocator_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/allocator/internal/golden"
)

// TestUniform draws from a union of ranges that overlap, parts of which are used or excluded, and compares how often
// each address came with how often it should (chi-square, five standard deviations).
func TestUniform(t *testing.T) {
	spans, exclude := spans("10.0.0.1-10.0.0.126 10.0.0.65-10.0.0.126 10.0.0.97-10.0.0.126 10.0.3.1-10.0.3.14"), spans("10.0.0.40-10.0.0.50 10.0.3.3-10.0.3.4")
	tier, err := allocator.NewTier(spans, exclude)
	if err != nil {
		t.Fatal(err)
	}
	p, gold := allocator.NewPoolWith(rand.NewPCG(12, 0)), golden.NewPool()
	for i := 20; i < 128; i += 3 {
		p.Observe(nth(addr("10.0.0.0"), i), allocator.Allocated)
		gold.Observe(nth(addr("10.0.0.0"), i), golden.Allocated)
	}
	want := golden.Lot{Tiers: []golden.Tier{golden.NewTier(goldenSpans(spans), goldenSpans(exclude))}}
	checkUniform(t, p, allocator.Lot{Tiers: []*allocator.Tier{tier}}, gold.Eligible(want))
}

// TestUniformWhenNearlyFull: seven addresses of 65,278 are left, far from each other.
func TestUniformWhenNearlyFull(t *testing.T) {
	p, lot := allocator.NewPoolWith(rand.NewPCG(13, 0)), lotOf(t, from(t, "10.0.0.0/16"))
	drain(t, p, lot)
	var left []netip.Addr
	for _, i := range []int{257, 258, 4096, 20_000, 20_100, 65_533, 65_534} {
		left = append(left, nth(addr("10.0.0.0"), i))
		p.Forget(left[len(left)-1])
	}
	checkUniform(t, p, lot, left)
}

// TestUniformOverManyRuns: there are 300 runs, in which half or nearly all of the addresses are used, so that addresses
// are drawn by trying, or by counting.
func TestUniformOverManyRuns(t *testing.T) {
	for _, start := range []string{"10.1.0.0", "fd00::"} {
		var spans []allocator.Span
		for i := range 300 {
			first := shifted(addr(start), int64(1000*i+i*i%500))
			spans = append(spans, allocator.Span{First: first, Last: shifted(first, int64(i%4))})
		}
		tier := tierOf(t, spans...)
		for _, used := range []int{50, 97} {
			t.Run(fmt.Sprintf("%s, %d %%", start, used), func(t *testing.T) {
				p, rng := allocator.NewPoolWith(rand.NewPCG(14, 0)), seeded(15)
				var eligible []netip.Addr
				for _, a := range addrsOf(tier) {
					if rng.IntN(100) < used {
						p.Observe(a, allocator.Allocated)
					} else {
						eligible = append(eligible, a)
					}
				}
				checkUniform(t, p, allocator.Lot{Tiers: []*allocator.Tier{tier}}, eligible)
			})
		}
	}
}

func checkUniform(t *testing.T, p *allocator.Pool, l allocator.Lot, eligible []netip.Addr) {
	t.Helper()
	const each = 300
	seen := map[netip.Addr]int{}
	for range each * len(eligible) {
		d, err := p.Draw(l)
		if err != nil {
			t.Fatal(err)
		}
		if d.Cooled {
			t.Fatalf("%s was cooling", d.Addr)
		}
		seen[d.Addr]++
		p.Forget(d.Addr)
	}
	chi2 := 0.0
	for _, a := range eligible {
		d := float64(seen[a] - each)
		chi2 += d * d / each
		delete(seen, a)
	}
	if len(seen) > 0 {
		t.Errorf("not eligible, but drawn: %v", seen)
	}
	freedom := float64(len(eligible) - 1)
	if far := 5 * math.Sqrt(2*freedom); math.Abs(chi2-freedom) > far {
		t.Errorf("chi-square is %.1f for %d addresses, want %.0f±%.0f", chi2, len(eligible), freedom, far)
	}
}

// script is a random source that says what it was told to say, and fails after that.
type script struct {
	t    *testing.T
	says []uint64
}

func (s *script) Uint64() uint64 {
	if len(s.says) == 0 {
		s.t.Fatal("one more random number was asked for than there should be")
	}
	n := s.says[0]
	s.says = s.says[1:]
	return n
}

// TestNoBias: random numbers that would favour some addresses are drawn again.
func TestNoBias(t *testing.T) {
	for _, tc := range []struct {
		name   string
		ranges []string
		says   []uint64
		want   string
	}{
		{"the first of three", []string{"fd00::/126"}, []uint64{1}, "fd00::1"},
		{"the last of three", []string{"fd00::/126"}, []uint64{math.MaxUint64}, "fd00::3"},
		{"2^64 is 1 more than a multiple of three", []string{"fd00::/126"}, []uint64{0, 1 << 63}, "fd00::2"},
		{"twice", []string{"fd00::/126"}, []uint64{0, 0, math.MaxUint64}, "fd00::3"},
		{"fewer than 2^64", []string{"fd00::/64"}, []uint64{math.MaxUint64}, "fd00::ffff:ffff:ffff:ffff"},
		{"more than 2^64: the first", []string{"fd00::/64", "fd00:0:0:1::/64"}, []uint64{0, 0}, "fd00::101"},
		{"more than 2^64: 2^65 is too many", []string{"fd00::/64", "fd00:0:0:1::/64"}, []uint64{1, math.MaxUint64, 0, 5}, "fd00::106"},
		{"more than 2^64: the last", []string{"fd00::/64", "fd00:0:0:1::/64"}, []uint64{1, math.MaxUint64 - 514}, "fd00:0:0:1:ffff:ffff:ffff:ffff"},
		{"more than 2^64: one more than the last", []string{"fd00::/64", "fd00:0:0:1::/64"}, []uint64{1, math.MaxUint64 - 513, 0, 0}, "fd00::101"},
		{"more than 2^64: only the bits that count", []string{"fd00::/64", "fd00:0:0:1::/64"}, []uint64{0xfffffffffffffffe, 0}, "fd00::101"},
		{"more than 2^64: into the second", []string{"fd00::/64", "fd00:0:0:1::/64"}, []uint64{1, 0}, "fd00:0:0:1::202"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			src := &script{t, tc.says}
			d, err := allocator.NewPoolWith(src).Draw(lotOf(t, from(t, tc.ranges...)))
			if err != nil || d.Addr != addr(tc.want) {
				t.Errorf("got %s, %v, want %s", d.Addr, err, tc.want)
			}
			if len(src.says) > 0 {
				t.Errorf("%d random numbers too few were asked for", len(src.says))
			}
		})
	}
}
