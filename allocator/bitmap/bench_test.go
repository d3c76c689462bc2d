package bitmap_test

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/clusterip-operator/clusterip-operator/allocator/bitmap"
)

// BenchmarkParseAll reads a bitmap and walks over its addresses: what is done for each range of a cluster.
func BenchmarkParseAll(b *testing.B) {
	for _, spec := range []string{"10.96.0.0/12", "10.96.0.0/16", "fd00:10:96::/112"} {
		for _, share := range []int{1, 500, 1000} {
			o := newOracle(netip.MustParsePrefix(spec))
			o.fill(seeded(1), share)
			data := o.number.Bytes()
			b.Run(fmt.Sprintf("range=%s/used=%v%%", spec, float64(share)/10), func(b *testing.B) {
				b.ReportAllocs()
				b.SetBytes(int64(len(data)))
				used := 0
				for b.Loop() {
					m, err := bitmap.Parse(spec, data)
					if err != nil {
						b.Fatal(err)
					}
					used = 0
					for range m.All() {
						used++
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(used), "ns/addr")
			})
		}
	}
}

// BenchmarkData writes a bitmap.
func BenchmarkData(b *testing.B) {
	m := newBitmap(b, netip.MustParsePrefix("10.96.0.0/12"))
	add(b, m, netip.MustParseAddr("10.111.255.254"))
	b.ReportAllocs()
	for b.Loop() {
		m.Data()
	}
}

// BenchmarkContains asks about one address after the other.
func BenchmarkContains(b *testing.B) {
	for _, spec := range []string{"10.96.0.0/12", "fd00:10:96::/112"} {
		m := newBitmap(b, netip.MustParsePrefix(spec))
		a := m.Prefix().Addr()
		b.Run("range="+spec, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if m.Contains(a) {
					b.Fatal(a)
				}
			}
		})
	}
}
