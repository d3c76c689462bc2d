//go:build linux

package tables

import (
	"crypto/sha256"
	"encoding/binary"
	"math"
	"net/netip"
)

// maglevSize is how many entries a look-up table has, whatever the number of endpoints: a table of
// another size leads nearly all clients elsewhere, so an endpoint more or less must not change it.
// With n endpoints each has 2048/n entries, give or take the root of that.
const maglevSize = 2048

// maglev is a look-up table as that of Maglev: the hash of a client is an index of it. Each entry
// is the endpoint that draws the smallest number for this index, exponentially distributed with the
// endpoint's weight as its rate (rendezvous hashing). So when one goes, only its own entries
// change, and its share of them is near its share of the weight. In Maglev's own way, endpoints
// take turns to fill the table, which makes shares more even; but if one of 25 endpoints goes, up
// to three times as many clients move, and of 100 up to six times.
//
// It is a pure function of the endpoints, the same on all nodes.
func maglev(endpoints []netip.AddrPort, weights []int) []netip.AddrPort {
	table, best := make([]netip.AddrPort, maglevSize), make([]float64, maglevSize)
	for n, e := range endpoints {
		seed, mean := seedOf(e), 1/float64(weights[n])
		for i := range table {
			if drawn := exponential(mix(seed+uint64(i)*golden)) * mean; !table[i].IsValid() || drawn < best[i] {
				table[i], best[i] = e, drawn
			}
		}
	}
	return table
}

// seedOf is what an endpoint begins to draw with.
func seedOf(e netip.AddrPort) uint64 {
	sum := sha256.Sum256([]byte(e.String()))
	return binary.BigEndian.Uint64(sum[:])
}

// exponential turns a number of evenly distributed bits into an exponential one, with mean 1.
func exponential(n uint64) float64 { return -math.Log((float64(n>>11) + 0.5) / (1 << 53)) }

// golden and mix are the increments and the finalizer of SplitMix64.
const golden = 0x9e3779b97f4a7c15

func mix(n uint64) uint64 {
	n = (n ^ n>>30) * 0xbf58476d1ce4e5b9
	n = (n ^ n>>27) * 0x94d049bb133111eb
	return n ^ n>>31
}
