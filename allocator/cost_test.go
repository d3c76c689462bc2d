package allocator_test

import (
	"math/rand/v2"
	"testing"

	"github.com/clusterip-operator/clusterip-operator/allocator"
)

// TestAllocations pins what the comments promise: in a pool that is in use, nothing is allocated.
func TestAllocations(t *testing.T) {
	p := allocator.NewPoolWith(rand.NewPCG(19, 0))
	c := from(t, "10.0.0.0/20", "10.0.8.0/22")
	c.Exclude = []allocator.Span{span("10.0.3.0-10.0.3.9"), span("10.0.1.0-10.0.1.9")}
	r, lot := c.Ranges[0], lotOf(t, c)
	var set allocator.Set
	for range 2000 {
		d, err := p.Draw(lot)
		if err != nil {
			t.Fatal(err)
		}
		p.Observe(d.Addr, allocator.Allocated)
		set.Insert(d.Addr)
	}
	a, other := addr("10.0.9.9"), addr("10.0.0.77")
	nearlyFull := allocator.Lot{Tiers: lotOf(t, from(t, "10.1.12.0/27", "10.1.13.0/27", "10.1.14.0/27")).Tiers[:1]}
	for range 40 { // of 3 x 14
		d, err := p.Draw(nearlyFull)
		if err != nil {
			t.Fatal(err)
		}
		p.Observe(d.Addr, allocator.Allocated)
	}
	p.Cool(a, at(1))
	p.Observe(addr("10.0.9.8"), allocator.Allocated)
	for name, f := range map[string]func(){
		"State":                  func() { p.State(a) },
		"Usage":                  func() { p.Usage(r.Span()) },
		"Used of an empty range": func() { p.Used(span("10.1.0.0-10.1.0.9"), 9) },
		"Draw, Forget": func() {
			d, _ := p.Draw(lot)
			p.Forget(d.Addr)
		},
		"Draw from few, Forget": func() {
			d, _ := p.Draw(nearlyFull)
			p.Forget(d.Addr)
		},
		"Assume, Forget": func() {
			p.Assume(other)
			p.Forget(other)
		},
		"Assume, Observe, Release": func() {
			p.Assume(other)
			p.Observe(other, allocator.Allocated)
			p.Release(other)
		},
		"Observe":       func() { p.Observe(addr("10.0.9.8"), allocator.Allocated) },
		"Cool":          func() { p.Cool(a, at(1)) },
		"Tier.Size":     func() { lot.Tiers[0].Size() },
		"Set.Contains":  func() { set.Contains(a) },
		"Set.CountIn":   func() { set.CountIn(r.Span()) },
		"Set.NthFree":   func() { set.NthFree(r.Span(), 1234) },
		"Set.Len":       func() { set.Len() },
		"Range.Band":    func() { r.Band(allocator.Static) },
		"Range.BandOf":  func() { r.BandOf(a) },
		"Range.Size":    func() { r.Size() },
		"Span.Contains": func() { r.Span().Contains(a) },
	} {
		if got := testing.AllocsPerRun(200, f); got != 0 {
			t.Errorf("%s allocates %v times", name, got)
		}
	}
}

// TestOneAddressComesAndGoes: the last node stays, so that an address alone costs nothing either.
func TestOneAddressComesAndGoes(t *testing.T) {
	var s allocator.Set
	s.Insert(addr("fd00::1"))
	s.Delete(addr("fd00::1"))
	if got := testing.AllocsPerRun(100, func() { s.Insert(addr("fd00::2")); s.Delete(addr("fd00::2")) }); got != 0 {
		t.Errorf("it allocates %v times", got)
	}
}

// TestSizes pins what memory is reckoned with: 1 KiB for a leaf, of which the runtime wastes next to nothing, and 64
// bytes for a cooling address.
func TestSizes(t *testing.T) {
	if allocator.LeafBytes > 1024 || allocator.LeafBytes < 1000 || allocator.CoolingBytes != 64 {
		t.Errorf("a leaf has %d bytes, a cooling address %d", allocator.LeafBytes, allocator.CoolingBytes)
	}
}
