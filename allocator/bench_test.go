package allocator_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"runtime"
	"testing"

	"github.com/clusterip-operator/clusterip-operator/allocator"
)

// BenchmarkAllocate measures a dynamic allocation at a constant fill: one operation is a Reserve and the
// Forget of what it drew. The share of used addresses is that of the dynamic band, drawn at random, rounded
// down and such that one address at least is free.
//
// hack/tools/peer-allocator has the same benchmarks, by the same names, for the allocators of the API server.
func BenchmarkAllocate(b *testing.B) {
	for _, bits := range []int{24, 20, 16, 12} {
		r := benchRange(b, netip.PrefixFrom(netip.MustParseAddr("10.0.0.0"), bits))
		for _, share := range []float64{0, 50, 99, 99.99} {
			b.Run(fmt.Sprintf("impl=ours/prefix=%d/used=%v", bits, share), func(b *testing.B) {
				size := r.Band(allocator.Dynamic).Size()
				benchAllocate(b, r, min(uint64(float64(size)*share/100), size-1))
			})
		}
	}
	b.Run("impl=ours/prefix=64/used=1M", func(b *testing.B) {
		benchAllocate(b, benchRange(b, netip.MustParsePrefix("fd00::/64")), 1_000_000)
	})
}

func benchRange(b *testing.B, p netip.Prefix) allocator.Range {
	b.Helper()
	r, err := allocator.NewRange(p)
	if err != nil {
		b.Fatal(err)
	}
	return r
}

func benchAllocate(b *testing.B, r allocator.Range, used uint64) {
	p := allocator.NewPool(allocator.WithRand(rand.NewPCG(1, 2)))
	c := allocator.Choice{Ranges: []allocator.Candidate{{Range: r}}}
	benchFill(b, p, c, used)
	b.ReportAllocs()
	for b.Loop() {
		a, err := p.Reserve(c)
		if err != nil {
			b.Fatal(err)
		}
		p.Forget(a)
	}
}

// benchFill allocates n addresses at random.
func benchFill(b *testing.B, p *allocator.Pool, c allocator.Choice, n uint64) {
	b.Helper()
	for range n {
		a, err := p.Reserve(c)
		if err != nil {
			b.Fatal(err)
		}
		p.Commit(a)
	}
}

// BenchmarkMemory reports what a Pool needs for one used address. One operation is to fill a new Pool.
func BenchmarkMemory(b *testing.B) {
	for _, tc := range []struct {
		name, prefix string
		used         uint64
	}{
		{"dense/prefix=12/used=1M", "10.0.0.0/12", 1_000_000},
		{"dense/prefix=16/used=65k", "10.0.0.0/16", 65_000},
		{"half/prefix=12/used=500k", "10.0.0.0/12", 500_000},
		{"sparse/prefix=64/used=1M", "fd00::/64", 1_000_000},
		{"sparse/prefix=64/used=10k", "fd00::/64", 10_000},
	} {
		b.Run(tc.name, func(b *testing.B) {
			c := allocator.Choice{Ranges: []allocator.Candidate{{Range: benchRange(b, netip.MustParsePrefix(tc.prefix))}}}
			for b.Loop() {
				before := heap()
				p := allocator.NewPool(allocator.WithRand(rand.NewPCG(1, 2)))
				benchFill(b, p, c, tc.used)
				b.ReportMetric(float64(heap()-before)/float64(tc.used), "B/addr")
				runtime.KeepAlive(p)
			}
		})
	}
}

// heap returns the bytes that are in use after a collection.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
