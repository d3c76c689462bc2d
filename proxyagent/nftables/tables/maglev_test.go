//go:build linux

package tables

import (
	"math"
	"math/big"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/test/framework/plans"
)

func ones(n int) []int { return slices.Repeat([]int{1}, n) }

// entries counts those of each endpoint.
func entries(table []netip.AddrPort) map[netip.AddrPort]int {
	n := map[netip.AddrPort]int{}
	for _, e := range table {
		n[e]++
	}
	return n
}

// TestAnEndpointThatGoesMovesOnlyItsClients: one of n goes; at most 2/n of clients move, and back.
func TestAnEndpointThatGoesMovesOnlyItsClients(t *testing.T) {
	for _, f := range []model.Family{model.IPv4, model.IPv6} {
		for n := 2; n <= 100; n += 1 + n/4 {
			all := plans.Endpoints(f, n)
			before := maglev(all, ones(n))
			for gone := range n {
				rest := slices.Delete(slices.Clone(all), gone, gone+1)
				moved := 0
				for i, e := range maglev(rest, ones(n-1)) {
					if e == before[i] {
						continue
					}
					moved++
					if before[i] != all[gone] {
						t.Fatalf("%d endpoints, %d goes: a client of %v moves to %v", n, gone, before[i], e)
					}
				}
				if moved == 0 || float64(moved)/maglevSize > 2/float64(n) {
					t.Errorf("%d endpoints, %d goes: %d of %d move", n, gone, moved, maglevSize)
				}
			}
		}
	}
}

// TestMaglevFollowsWeights allows shares five standard deviations off, which is one in a million.
func TestMaglevFollowsWeights(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 1))
	for range 100 {
		all, weights := plans.Endpoints(model.IPv6, r.IntN(20)+2), []int{}
		for range all {
			weights = append(weights, r.IntN(model.MaxWeight)+1)
		}
		got := entries(maglev(all, weights))
		for i, e := range all {
			share := float64(weights[i]) / float64(model.Sum(weights))
			if want := share * maglevSize; math.Abs(float64(got[e])-want) > 5*math.Sqrt(want*(1-share))+1 {
				t.Errorf("weights %v: endpoint %d has %d entries, want about %.0f", weights, i, got[e], want)
			}
		}
	}
}

// TestMaglevIsWhatTheOracleSays in any order of endpoints. The oracle draws for each entry and
// endpoint alone, with exact numbers for equal weights.
func TestMaglevIsWhatTheOracleSays(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 1))
	for range 30 {
		all := plans.Endpoints(model.IPv4, r.IntN(12)+1)
		r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		for i, got := range maglev(all, ones(len(all))) {
			if want := oracle(all, i); got != want {
				t.Fatalf("entry %d of %v is %v, want %v", i, all, got, want)
			}
		}
	}
}

// oracle returns the endpoint that draws the largest integer for an entry: its -log is the least.
func oracle(all []netip.AddrPort, entry int) (best netip.AddrPort) {
	most := big.NewInt(-1)
	for _, e := range all {
		n := new(big.Int).SetUint64(uint64(entry))
		n.Mul(n, new(big.Int).SetUint64(golden)).Add(n, new(big.Int).SetUint64(seedOf(e)))
		n.And(n, new(big.Int).SetUint64(math.MaxUint64))
		if drawn := new(big.Int).SetUint64(mix(n.Uint64())); drawn.Cmp(most) > 0 {
			best, most = e, drawn
		}
	}
	return best
}
