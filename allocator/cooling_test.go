package allocator_test

import (
	"errors"
	"net/netip"
	"slices"
	"testing"

	"github.com/clusterip-operator/clusterip-operator/allocator"
)

// cooled returns a pool in which all usable addresses of c cool, in an order that seed tells, and that order.
func cooled(c allocator.Choice, seed uint64) (*allocator.Pool, []netip.Addr) {
	p, order := allocator.NewPool(), usable(c)
	seeded(seed).Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	for _, a := range order {
		p.Observe(a, allocator.Cooling)
	}
	return p, order
}

// TestCoolingYieldsInOrder: whoever cools longest yields first, and each once, whatever the band and the priority.
func TestCoolingYieldsInOrder(t *testing.T) {
	for _, prefixes := range [][]string{{"10.0.0.0/24"}, {"10.0.0.0/25", "10.0.0.64/26", "10.0.9.0/28"}, {"::/120"}, {all6.Last.String() + "/120"}} {
		c := from(t, prefixes...)
		for i := range c.Ranges {
			c.Ranges[i].Priority = i
		}
		p, order := cooled(c, 14)
		if a, err := p.Reserve(c); !errors.Is(err, allocator.ErrFull) {
			t.Fatalf("%s: a cooling address was drawn: %s, %v", prefixes, a, err)
		}
		c.YieldCooling = true
		if got := drain(t, p, c); !slices.Equal(got, order) {
			t.Errorf("%s: cooling yielded in the order\n%s, want\n%s", prefixes, got, order)
		}
		if err := p.Check(); err != nil {
			t.Error(err)
		}
	}
}

// TestCoolingYieldsOnce: an address that was drawn is nobody's to yield any more.
func TestCoolingYieldsOnce(t *testing.T) {
	c := from(t, "10.0.0.0/30")
	c.YieldCooling = true
	p, order := cooled(c, 15)
	first, err := p.Reserve(c)
	if err != nil || first != order[0] {
		t.Fatalf("got %s, %v, want %s", first, err, order[0])
	}
	if got := p.State(first); got != allocator.Assumed {
		t.Errorf("%s is %s", first, got)
	}
	want := allocator.Usage{Size: 2, Allocated: 1, Cooling: 1}
	if got := p.Usage(c.Ranges[0].Range.Span()); got != want {
		t.Errorf("usage %+v, want %+v", got, want)
	}
	if second, err := p.Reserve(c); err != nil || second != order[1] {
		t.Errorf("got %s, %v, want %s", second, err, order[1])
	}
	if third, err := p.Reserve(c); !errors.Is(err, allocator.ErrFull) {
		t.Errorf("got %s, %v, want ErrFull", third, err)
	}
	p.Forget(order[1])
	p.Observe(order[0], allocator.Cooling) // given back: it cools from now on
	if got := drain(t, p, c); !slices.Equal(got, []netip.Addr{order[1], order[0]}) {
		t.Errorf("got %s, want the free one and then the cooling one", got)
	}
}

// TestFreeBeforeCooling: even a static address is drawn before a cooling one has to yield.
func TestFreeBeforeCooling(t *testing.T) {
	c := from(t, "10.0.0.0/27")
	c.YieldCooling = true
	p, order := cooled(c, 16)
	p.Release(addr("10.0.0.3"))
	if a, err := p.Reserve(c); err != nil || a != addr("10.0.0.3") {
		t.Errorf("got %s, %v, want 10.0.0.3", a, err)
	}
	order = slices.DeleteFunc(order, func(a netip.Addr) bool { return a == addr("10.0.0.3") })
	if got := drain(t, p, c); !slices.Equal(got, order) {
		t.Errorf("cooling yielded in the order %s, want %s", got, order)
	}
}

// TestCoolingKeepsItsPlace: observing a cooling address again does not move it; leaving and coming back does.
func TestCoolingKeepsItsPlace(t *testing.T) {
	c := from(t, "10.0.0.0/29")
	c.YieldCooling = true
	p, order := cooled(c, 17)
	for _, a := range slices.Backward(order) {
		p.Observe(a, allocator.Cooling)
	}
	for _, s := range []allocator.State{allocator.Allocated, allocator.Reserved} {
		a := order[0]
		p.Observe(a, s)
		p.Observe(a, allocator.Cooling)
		order = append(order[1:], a)
	}
	if got := drain(t, p, c); !slices.Equal(got, order) {
		t.Errorf("cooling yielded in the order %s, want %s", got, order)
	}
}

// TestOnlyCandidatesYield: whoever cools elsewhere, is excluded, or is of the other family does not yield, however
// long it has been cooling.
func TestOnlyCandidatesYield(t *testing.T) {
	p := allocator.NewPool()
	for _, text := range []string{
		"10.0.0.0", "10.0.0.31", "10.0.0.33", "fd00::1", "10.0.0.20", // network, broadcast, elsewhere, other family, excluded
		"10.0.0.7", "10.0.0.6",
	} {
		p.Observe(addr(text), allocator.Cooling)
	}
	c := from(t, "10.0.0.0/27")
	for _, a := range usable(c) {
		if p.State(a) == allocator.Free {
			p.Observe(a, allocator.Allocated)
		}
	}
	c.YieldCooling, c.Exclude = true, []allocator.Span{span("10.0.0.15-10.0.0.22"), all6}
	if got := drain(t, p, c); !slices.Equal(got, []netip.Addr{addr("10.0.0.7"), addr("10.0.0.6")}) {
		t.Errorf("yielded %s, want 10.0.0.7 and 10.0.0.6", got)
	}
}

// TestManyCooling looks into the queue while thousands of addresses come and go.
func TestManyCooling(t *testing.T) {
	c := from(t, "10.0.0.0/20")
	p, order := cooled(c, 18)
	if err := p.Check(); err != nil {
		t.Fatal(err)
	}
	half := len(order) / 2
	for i, a := range order[:half] {
		if i%2 == 0 {
			p.Release(a)
		} else {
			p.Observe(a, allocator.Allocated)
		}
		if i%97 == 0 {
			if err := p.Check(); err != nil {
				t.Fatal(err)
			}
		}
	}
	want := allocator.Usage{Size: 4094, Allocated: uint64(half / 2), Cooling: uint64(len(order) - half), Free: uint64(half - half/2)}
	if got := p.Usage(c.Ranges[0].Range.Span()); got != want {
		t.Errorf("usage %+v, want %+v", got, want)
	}
	c.YieldCooling = true
	if got := drain(t, p, c)[half-half/2:]; !slices.Equal(got, order[half:]) {
		t.Error("cooling yielded out of order")
	}
}
