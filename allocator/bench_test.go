package allocator

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
)

// BenchmarkAllocate measures a dynamic allocation at a constant fill: one operation is a Draw and
// the Forget of what it drew. The share of used addresses is that of the dynamic band, drawn at
// random, rounded down, and leaves at least one address free.
//
// hack/tools/peer-allocator has the same benchmarks for the allocators of the API server.
func BenchmarkAllocate(b *testing.B) {
	for _, bits := range []int{24, 20, 16, 12} {
		r := rangeOf(b, fmt.Sprintf("10.0.0.0/%d", bits))
		for _, share := range []float64{0, 50, 99, 99.99} {
			b.Run(fmt.Sprintf("impl=ours/prefix=%d/used=%v", bits, share), func(b *testing.B) {
				size := r.Band(Dynamic).Size()
				benchAllocate(b, r, min(uint64(float64(size)*share/100), size-1))
			})
		}
	}
	b.Run("impl=ours/prefix=64/used=1M", func(b *testing.B) {
		benchAllocate(b, rangeOf(b, "fd00::/64"), 1_000_000)
	})
}

func benchAllocate(b *testing.B, r Range, used uint64) {
	benchDraw(b, NewPoolWithRand(rand.NewPCG(1, 2)), requestOf(b, r.String()), used)
}

func benchDraw(b *testing.B, p *Pool, r Request, used uint64) {
	b.Helper()
	benchFill(b, p, r, used)
	b.ReportAllocs()
	for b.Loop() {
		d, err := p.Draw(r)
		if err != nil {
			b.Fatal(err)
		}
		p.Forget(d.Addr)
	}
}

// BenchmarkDraw measures draws that steering makes, from tiers of one range and of many. One
// operation is a Draw and the Forget of what it drew.
func BenchmarkDraw(b *testing.B) {
	for _, ranges := range []int{1, 10, 1000} {
		r := Request{Tiers: []*Tier{benchTier(b, ranges)}}
		for _, share := range []float64{0, 50, 90, 99, 99.9} {
			b.Run(fmt.Sprintf("ranges=%d/used=%v", ranges, share), func(b *testing.B) {
				p := NewPoolWithRand(rand.NewPCG(1, 2))
				benchDraw(b, p, r, uint64(float64(r.Tiers[0].Size())*share/100))
			})
		}
	}
}

// benchTier returns the dynamic bands of some ranges of 254 addresses, or of one of 65,534.
func benchTier(b *testing.B, ranges int) *Tier {
	b.Helper()
	bits := 24
	if ranges == 1 {
		bits = 16
	}
	var spans []Span
	for i := range ranges {
		spans = append(spans, rangeOf(b, fmt.Sprintf("10.%d.%d.0/%d", i/100, i%100*2, bits)).Band(Dynamic))
	}
	return tierOf(b, spans...)
}

// benchFill allocates n addresses at random.
func benchFill(b *testing.B, p *Pool, r Request, n uint64) {
	b.Helper()
	for range n {
		d, err := p.Draw(r)
		if err != nil {
			b.Fatal(err)
		}
		p.Observe(d.Addr, Allocated)
	}
}

// BenchmarkMemory reports what a Pool needs for one used address. One operation fills a new Pool.
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
			r := requestOf(b, tc.prefix)
			for b.Loop() {
				before := heap()
				p := NewPoolWithRand(rand.NewPCG(1, 2))
				benchFill(b, p, r, tc.used)
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
