package allocator_test

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/clusterip-operator/clusterip-operator/allocator"
)

// cooled returns a pool in which all usable addresses of c cool, in an order that seed tells, and that order.
func cooled(c candidates, seed uint64) (*allocator.Pool, []netip.Addr) {
	p, order := allocator.NewPool(), usable(c)
	seeded(seed).Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	for i, a := range order {
		p.Cool(a, at(i))
	}
	return p, order
}

// TestCoolingYieldsInOrder: whoever cools longest yields first, and each once, whatever the band.
func TestCoolingYieldsInOrder(t *testing.T) {
	for _, prefixes := range [][]string{{"10.0.0.0/24"}, {"10.0.0.0/25", "10.0.0.64/26", "10.0.9.0/28"}, {"::/120"}, {all6.Last.String() + "/120"}} {
		c := from(t, prefixes...)
		p, order := cooled(c, 14)
		if d, err := p.Draw(lotOf(t, c)); !errors.Is(err, allocator.ErrFull) {
			t.Fatalf("%s: a cooling address was drawn: %+v, %v", prefixes, d, err)
		}
		if got := drain(t, p, yielding(t, c)); !slices.Equal(got, order) {
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
	lot := yielding(t, c)
	p, order := cooled(c, 15)
	first, err := p.Draw(lot)
	if err != nil || first != (allocator.Drawn{Addr: order[0], Cooled: true}) {
		t.Fatalf("got %+v, %v, want %s", first, err, order[0])
	}
	if got := p.State(first.Addr); got != allocator.Assumed {
		t.Errorf("%s is %s", first.Addr, got)
	}
	want := allocator.Usage{Size: 2, Allocated: 1, Cooling: 1}
	if got := p.Usage(c.Ranges[0].Span()); got != want {
		t.Errorf("usage %+v, want %+v", got, want)
	}
	if second, err := p.Draw(lot); err != nil || second.Addr != order[1] {
		t.Errorf("got %s, %v, want %s", second.Addr, err, order[1])
	}
	if third, err := p.Draw(lot); !errors.Is(err, allocator.ErrFull) {
		t.Errorf("got %s, %v, want ErrFull", third.Addr, err)
	}
	p.Forget(order[1])
	p.Cool(order[0], at(0)) // late news of the rest that ended
	if got := p.State(order[0]); got != allocator.Assumed {
		t.Errorf("%s is %s, and may be handed out twice", order[0], got)
	}
	p.Forget(order[0])
	p.Cool(order[0], at(0)) // given back
	if got := drain(t, p, lot); !slices.Equal(got, []netip.Addr{order[1], order[0]}) {
		t.Errorf("got %s, want the free one and then the cooling one", got)
	}
}

// TestFreeBeforeCooling: even a static address is drawn before a cooling one has to yield.
func TestFreeBeforeCooling(t *testing.T) {
	c := from(t, "10.0.0.0/27")
	lot := yielding(t, c)
	p, order := cooled(c, 16)
	p.Release(addr("10.0.0.3"))
	if d, err := p.Draw(lot); err != nil || d.Addr != addr("10.0.0.3") || d.Cooled {
		t.Errorf("got %+v, %v, want 10.0.0.3", d, err)
	}
	order = slices.DeleteFunc(order, func(a netip.Addr) bool { return a == addr("10.0.0.3") })
	if got := drain(t, p, lot); !slices.Equal(got, order) {
		t.Errorf("cooling yielded in the order %s, want %s", got, order)
	}
}

// TestTimeIsWhatCounts: neither the order in which times are told matters, nor how often, nor what was between; the last
// time that was told does.
func TestTimeIsWhatCounts(t *testing.T) {
	c := from(t, "10.0.0.0/28")
	p, order := cooled(c, 17)
	for i, a := range slices.Backward(order) {
		switch i % 4 {
		case 0:
			p.Observe(a, allocator.Allocated)
		case 1:
			p.Observe(a, allocator.Reserved)
		case 2:
			p.Cool(a, at(1000-i))
		}
		p.Cool(a, at(i))
	}
	p.Cool(order[2], at(1000))
	last := order[2]
	order = append(slices.Delete(order, 2, 3), last)
	if err := p.Check(); err != nil {
		t.Error(err)
	}
	if got := drain(t, p, yielding(t, c)); !slices.Equal(got, order) {
		t.Errorf("cooling yielded in the order %s, want %s", got, order)
	}
}

// TestFarTimes: the zero Time is long ago, a time without end is late, and of two at once the lower address yields first.
func TestFarTimes(t *testing.T) {
	p, lot := allocator.NewPool(), allocator.Lot{Tiers: []*allocator.Tier{tierOf(t, span("fd00::1-fd00::9"))}, Yield: true}
	for text, since := range map[string]time.Time{
		"fd00::8": {},
		"fd00::3": time.Date(1700, 1, 1, 0, 0, 0, 0, time.UTC),
		"fd00::2": time.Date(1969, 12, 31, 23, 59, 59, 999_999_999, time.UTC),
		"fd00::4": at(0),
		"fd00::1": at(0).In(time.FixedZone("east", 3600)).Add(1),
		"fd00::9": at(0).Add(1),
		"fd00::5": time.Date(2261, 1, 1, 0, 0, 0, 0, time.UTC),
		"fd00::6": time.Date(9000, 1, 1, 0, 0, 0, 0, time.UTC),
		"fd00::7": at(1 << 62),
	} {
		p.Cool(addr(text), since)
	}
	var got []string
	for _, a := range drain(t, p, lot) {
		got = append(got, a.String()[6:])
	}
	if text := strings.Join(got, " "); text != "8 3 2 4 1 9 5 6 7" {
		t.Errorf("yielded %s, want 8 3 2 4 1 9 5 6 7", text)
	}
}

// TestOnlyCandidatesYield: whoever cools elsewhere, is excluded, or is of the other family does not yield, however
// long it has been cooling.
func TestOnlyCandidatesYield(t *testing.T) {
	p := allocator.NewPool()
	for i, text := range []string{
		"10.0.0.0", "10.0.0.31", "10.0.0.33", "fd00::1", "10.0.0.20", // network, broadcast, elsewhere, other family, excluded
		"10.0.0.7", "10.0.0.6",
	} {
		p.Cool(addr(text), at(i))
	}
	c := from(t, "10.0.0.0/27")
	for _, a := range usable(c) {
		if p.State(a) == allocator.Free {
			p.Observe(a, allocator.Allocated)
		}
	}
	c.Exclude = []allocator.Span{span("10.0.0.15-10.0.0.22"), all6}
	if got := drain(t, p, yielding(t, c)); !slices.Equal(got, []netip.Addr{addr("10.0.0.7"), addr("10.0.0.6")}) {
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
	if got := p.Usage(c.Ranges[0].Span()); got != want {
		t.Errorf("usage %+v, want %+v", got, want)
	}
	if got := drain(t, p, yielding(t, c))[half-half/2:]; !slices.Equal(got, order[half:]) {
		t.Error("cooling yielded out of order")
	}
}
