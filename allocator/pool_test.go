package allocator_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/allocator/internal/golden"
)

func TestPoolRandomSteps(t *testing.T) {
	for seed := range uint64(30) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			mustPass(t, randomPoolSteps(seeded(seed), 500), runPool(3))
		})
	}
}

// drain draws until nothing is left and returns what came, in order.
func drain(t *testing.T, p *allocator.Pool, l allocator.Lot) []netip.Addr {
	t.Helper()
	var list []netip.Addr
	for {
		d, err := p.Draw(l)
		if errors.Is(err, allocator.ErrFull) {
			return list
		}
		if err != nil {
			t.Fatal(err)
		}
		if list = append(list, d.Addr); len(list) > 1<<17 {
			t.Fatal("there is no end of addresses")
		}
	}
}

// TestEveryAddressOnce drains small ranges of both families: every usable address comes once, the dynamic ones first.
func TestEveryAddressOnce(t *testing.T) {
	var prefixes []string
	for bits := 22; bits <= 32; bits++ {
		prefixes = append(prefixes, fmt.Sprintf("10.1.4.0/%d", bits), fmt.Sprintf("255.255.255.255/%d", bits))
	}
	for bits := 118; bits <= 128; bits++ {
		prefixes = append(prefixes, fmt.Sprintf("fd00::/%d", bits), fmt.Sprintf("::/%d", bits), fmt.Sprintf("%s/%d", all6.Last, bits))
	}
	for _, prefix := range prefixes {
		t.Run(prefix, func(t *testing.T) {
			c := from(t, prefix)
			r := c.Ranges[0]
			got := drain(t, allocator.NewPool(), lotOf(t, c))
			for i, a := range got {
				band, _ := r.BandOf(a)
				if isEarly := uint64(i) < r.Band(allocator.Dynamic).Size(); isEarly != (band == allocator.Dynamic) {
					t.Fatalf("draw %d of %d is %s, which is %s", i, len(got), a, band)
				}
			}
			slices.SortFunc(got, netip.Addr.Compare)
			if diff := cmp.Diff(usable(c), got, byEquality); diff != "" {
				t.Errorf("all addresses (-want +got):\n%s", diff)
			}
		})
	}
}

// TestLargeRangeToTheEnd drains a /17 through all levels of the tree.
func TestLargeRangeToTheEnd(t *testing.T) {
	p, c := allocator.NewPool(), from(t, "10.0.128.0/17")
	got := drain(t, p, lotOf(t, c))
	slices.SortFunc(got, netip.Addr.Compare)
	if n := len(slices.Compact(got)); n != 32766 {
		t.Errorf("%d addresses, want 32766", n)
	}
	if err := p.Check(); err != nil {
		t.Error(err)
	}
}

func TestFullError(t *testing.T) {
	p, c := allocator.NewPool(), from(t, "10.0.0.0/29", "10.0.0.0/30", "10.0.0.0/29")
	p.Observe(addr("10.0.0.1"), allocator.Allocated)
	p.Observe(addr("10.0.0.2"), allocator.Reserved)
	p.Cool(addr("10.0.0.3"), at(0))
	p.Assume(addr("10.0.0.4"))
	c.Exclude = []allocator.Span{span("10.0.0.5-10.0.0.9")}
	lot := lotOf(t, c)
	lot.Tiers = append(lot.Tiers, nil, new(allocator.Tier), lot.Tiers[0]) // each address counts once
	_, err := p.Draw(lot)
	want := &allocator.FullError{Usage: allocator.Usage{Size: 4, Allocated: 2, Reserved: 1, Cooling: 1}}
	var full *allocator.FullError
	if !errors.As(err, &full) || !errors.Is(err, allocator.ErrFull) {
		t.Fatalf("got %v, want a *FullError", err)
	}
	if diff := cmp.Diff(want, full); diff != "" {
		t.Errorf("the error (-want +got):\n%s", diff)
	}
	const text = "no free address: of 4 to draw from 2 are allocated, 1 reserved and 1 cooling"
	if err.Error() != text {
		t.Errorf("the error says\n%s, want\n%s", err, text)
	}
}

func TestZeroLot(t *testing.T) {
	for name, lot := range map[string]allocator.Lot{
		"no tiers": {}, "tiers without addresses": {Tiers: []*allocator.Tier{nil, {}}}, "nothing to yield": {Yield: true},
	} {
		d, err := allocator.NewPool().Draw(lot)
		if !errors.Is(err, allocator.ErrFull) || d != (allocator.Drawn{}) {
			t.Fatalf("%s: got %+v, %v, want ErrFull", name, d, err)
		}
		if want := "no free address: there is none to draw from"; err.Error() != want {
			t.Errorf("%s: the error says %q, want %q", name, err, want)
		}
	}
}

// TestRangesWithoutAddresses: they give nothing and do no harm.
func TestRangesWithoutAddresses(t *testing.T) {
	p := allocator.NewPool()
	for _, prefixes := range [][]string{{"10.0.0.0/31"}, {"10.0.0.0/32", "10.0.0.8/31"}, {"fd00::/128"}} {
		if d, err := p.Draw(lotOf(t, from(t, prefixes...))); !errors.Is(err, allocator.ErrFull) {
			t.Errorf("%s gave %+v, %v", prefixes, d, err)
		}
	}
	if got := drain(t, p, lotOf(t, from(t, "10.0.0.0/32", "10.0.0.4/30", "10.0.0.8/31"))); len(got) != 2 {
		t.Errorf("got %s, want two addresses", got)
	}
}

func TestTwoFamilies(t *testing.T) {
	p, lot := allocator.NewPool(), lotOf(t, from(t, "10.0.0.0/24"))
	lot.Tiers = slices.Concat(lot.Tiers, []*allocator.Tier{nil}, lotOf(t, from(t, "fd00::/120")).Tiers)
	d, err := p.Draw(lot)
	if err == nil || errors.Is(err, allocator.ErrFull) || d != (allocator.Drawn{}) {
		t.Fatalf("got %+v, %v, want a refusal", d, err)
	}
	if want := "drawing an address: the tiers are of two families; draw from each family by itself"; err.Error() != want {
		t.Errorf("the error says %q, want %q", err, want)
	}
	if u := p.Usage(all4); u.Allocated != 0 {
		t.Errorf("a refused lot took an address: %+v", u)
	}
}

func TestAssume(t *testing.T) {
	for name, tc := range map[string]struct {
		prepare func(*allocator.Pool, netip.Addr)
		want    bool
	}{
		"free":      {func(*allocator.Pool, netip.Addr) {}, true},
		"reserved":  {func(p *allocator.Pool, a netip.Addr) { p.Observe(a, allocator.Reserved) }, true},
		"cooling":   {func(p *allocator.Pool, a netip.Addr) { p.Cool(a, at(0)) }, true},
		"assumed":   {func(p *allocator.Pool, a netip.Addr) { p.Assume(a) }, false},
		"allocated": {func(p *allocator.Pool, a netip.Addr) { p.Observe(a, allocator.Allocated) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			for _, a := range []netip.Addr{addr("10.0.0.1"), addr("fd00::1")} {
				p := allocator.NewPool()
				tc.prepare(p, a)
				before := p.State(a)
				if got := p.Assume(a); got != tc.want {
					t.Errorf("%s, which is %s: got %v", a, before, got)
				}
				if got := p.State(a); tc.want && got != allocator.Assumed || !tc.want && got != before {
					t.Errorf("%s, which was %s, is %s", a, before, got)
				}
				if err := p.Check(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// TestStrangers: what is no Service address is free for ever, whatever is said about it.
func TestStrangers(t *testing.T) {
	p := allocator.NewPool()
	for _, a := range []netip.Addr{{}, addr("fe80::1%eth0"), addr("::ffff:10.0.0.1%eth0")} {
		p.Observe(a, allocator.Allocated)
		p.Cool(a, at(0))
		if p.Assume(a) {
			t.Errorf("%s was assumed", a)
		}
		p.Forget(a)
		p.Release(a)
		if got := p.State(a); got != allocator.Free {
			t.Errorf("%s is %s", a, got)
		}
	}
	p.Observe(addr("fe80::1"), allocator.Allocated)
	p.Release(addr("fe80::1%eth0"))
	if got := p.State(addr("fe80::1")); got != allocator.Allocated {
		t.Errorf("fe80::1 is %s", got)
	}
}

// TestFamiliesAreApart: an IPv4-mapped address is another one.
func TestFamiliesAreApart(t *testing.T) {
	p := allocator.NewPool()
	p.Observe(addr("10.0.0.1"), allocator.Reserved)
	if got := p.State(addr("::ffff:10.0.0.1")); got != allocator.Free {
		t.Errorf("::ffff:10.0.0.1 is %s", got)
	}
	p.Cool(addr("::ffff:10.0.0.1"), at(0))
	if got := p.State(addr("10.0.0.1")); got != allocator.Reserved {
		t.Errorf("10.0.0.1 is %s", got)
	}
	if got := p.Used(all6, 9); len(got) != 1 || got[0] != addr("::ffff:10.0.0.1") {
		t.Errorf("used IPv6 addresses: %s", got)
	}
}

func TestObserveRefusesWhatNobodyCanSee(t *testing.T) {
	for _, s := range []allocator.State{allocator.Free, allocator.Assumed, allocator.Cooling, 99} {
		func() {
			defer func() {
				if p := recover(); p == nil || !strings.Contains(fmt.Sprint(p), s.String()) {
					t.Errorf("observing %s: panic %v", s, p)
				}
			}()
			allocator.NewPool().Observe(addr("10.0.0.1"), s)
		}()
	}
}

// TestLateNewsOfADeletion: a deletion that is heard of while somebody writes the address again does not free it.
func TestLateNewsOfADeletion(t *testing.T) {
	p, a := allocator.NewPool(), addr("10.0.0.1")
	p.Assume(a)
	p.Release(a)
	if p.Assume(a) {
		t.Error("the address was given to a second one")
	}
	p.Observe(a, allocator.Allocated)
	p.Release(a)
	if !p.Assume(a) {
		t.Error("the address is not free after all")
	}
}

func TestUsage(t *testing.T) {
	p := allocator.NewPool()
	r := rangeOf(t, "fd00::/64")
	if got, want := p.Usage(r.Span()), (allocator.Usage{Size: 1<<64 - 1, Free: 1<<64 - 1}); got != want {
		t.Errorf("an empty /64: %+v, want %+v", got, want)
	}
	for i, s := range []allocator.State{allocator.Allocated, allocator.Allocated, allocator.Reserved} {
		p.Observe(shifted(r.Span().First, int64(i)), s)
	}
	p.Cool(shifted(r.Span().First, 3), at(0))
	p.Cool(r.Span().Last, at(0))
	p.Assume(addr("fd00::aaaa"))
	if got, want := p.Usage(r.Span()), (allocator.Usage{Size: 1<<64 - 1, Allocated: 3, Reserved: 1, Cooling: 2, Free: 1<<64 - 7}); got != want {
		t.Errorf("a used /64: %+v, want %+v", got, want)
	}
	if got, want := p.Usage(all6), (allocator.Usage{Size: 1<<64 - 1, Allocated: 3, Reserved: 1, Cooling: 2, Free: 1<<64 - 7}); got != want {
		t.Errorf("all of IPv6: %+v, want %+v", got, want)
	}
	for _, s := range []allocator.Span{{}, span("fd00::2-fd00::1"), span("10.0.0.1-fd00::1")} {
		if got := p.Usage(s); got != (allocator.Usage{}) {
			t.Errorf("%v: %+v", s, got)
		}
	}
}

func TestUsed(t *testing.T) {
	p := allocator.NewPool()
	list := []netip.Addr{addr("10.0.0.1"), addr("10.0.0.3"), addr("10.0.0.200"), addr("10.9.0.0")}
	p.Cool(list[0], at(0))
	for i, s := range []allocator.State{allocator.Allocated, allocator.Reserved, allocator.Allocated} {
		p.Observe(list[i+1], s)
	}
	for _, tc := range []struct {
		s     allocator.Span
		limit int
		want  []netip.Addr
	}{
		{all4, 10, list},
		{all4, 4, list},
		{all4, 3, list[:3]},
		{all4, 1, list[:1]},
		{all4, 0, nil},
		{all4, -1, nil},
		{span("10.0.0.2-10.0.0.200"), 10, list[1:3]},
		{all6, 10, nil},
		{allocator.Span{}, 10, nil},
	} {
		if diff := cmp.Diff(tc.want, p.Used(tc.s, tc.limit), byEquality); diff != "" {
			t.Errorf("the first %d of %s (-want +got):\n%s", tc.limit, tc.s, diff)
		}
	}
}

func TestSameSeedSameDraws(t *testing.T) {
	draws := func(seed uint64) []netip.Addr {
		return drain(t, allocator.NewPoolWith(rand.NewPCG(seed, seed)), lotOf(t, from(t, "10.0.0.0/24", "10.0.1.0/26")))
	}
	if !slices.Equal(draws(1), draws(1)) {
		t.Error("the same seed gave other draws")
	}
	if slices.Equal(draws(1), draws(2)) {
		t.Error("two seeds gave the same draws")
	}
	lot := lotOf(t, from(t, "10.0.0.0/24"))
	if slices.Equal(drain(t, allocator.NewPool(), lot), drain(t, allocator.NewPool(), lot)) {
		t.Error("without a seed, two pools gave the same draws")
	}
}

func TestStateString(t *testing.T) {
	for s, want := range map[allocator.State]string{
		allocator.Free: golden.Free, allocator.Assumed: golden.Assumed, allocator.Allocated: golden.Allocated,
		allocator.Reserved: golden.Reserved, allocator.Cooling: golden.Cooling, 5: "State(5)", 255: "State(255)",
	} {
		if got := s.String(); got != want {
			t.Errorf("State %d is %q, want %q", s, got, want)
		}
	}
}
