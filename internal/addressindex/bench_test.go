package addressindex

import (
	"fmt"
	"testing"

	"github.com/clusterip-operator/clusterip-operator/allocator"
)

// BenchmarkInFlight measures what a request asks of the index while so many addresses are in flight
// elsewhere, of 100 namespaces: in a range that has free addresses, and in one that is full.
func BenchmarkInFlight(b *testing.B) {
	for _, prefix := range []string{"10.0.0.0/12", "fd00:0:0:1::/64"} {
		for _, n := range []int{0, 1000, 65_000} {
			l := New()
			elsewhere := benchTier(b, prefix)
			for i := range n {
				if _, err := l.Draw(elsewhere, of(fmt.Sprint("ns", i%100), i)); err != nil {
					b.Fatal(err)
				}
			}
			open, full := benchTier(b, "192.168.0.0/20"), benchTier(b, "192.168.16.0/28")
			for a := mustRange("192.168.16.0/28").Span().First; full[0].Contains(a); a = a.Next() {
				l.pool.Observe(a, allocator.Allocated)
			}
			to, chosen := of("ns", 1), addr("192.168.32.1")
			for name, f := range map[string]func(){
				"draw, forget": func() {
					drawn, _ := l.Draw(open, to)
					l.Forget(drawn.Addr, to)
				},
				"take, forget": func() {
					l.Take(chosen, to)
					l.Forget(chosen, to)
				},
				"draw from full": func() { _, _ = l.Draw(full, to) },
				"full":           func() { l.Full(full) },
			} {
				b.Run(fmt.Sprintf("range=%s/in-flight=%d/%s", prefix, n, name), func(b *testing.B) {
					b.ReportAllocs()
					for b.Loop() {
						f()
					}
				})
			}
		}
	}
}

func benchTier(b *testing.B, prefix string) []*allocator.Tier {
	b.Helper()
	tier, err := allocator.NewTier([]allocator.Span{mustRange(prefix).Span()}, nil)
	if err != nil {
		b.Fatal(err)
	}
	return []*allocator.Tier{tier}
}
