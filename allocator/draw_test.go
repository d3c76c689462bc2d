package allocator

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"testing"
	"time"
)

// TestEveryAddressOnce drains small ranges: every usable address comes once, dynamic ones first.
func TestEveryAddressOnce(t *testing.T) {
	for bits := 22; bits <= 32; bits++ {
		for _, prefix := range []string{
			fmt.Sprintf("10.1.4.0/%d", bits), fmt.Sprintf("255.255.255.255/%d", bits), fmt.Sprintf("::/%d", bits+96), fmt.Sprintf("%s/%d", all6.Last, bits+96),
		} {
			r := rangeOf(t, prefix)
			got := drain(t, NewPool(), requestOf(t, r.String()))
			early := sorted(got[:min(int(r.Band(Dynamic).Size()), len(got))])
			if late := sorted(got[len(early):]); !slices.Equal(early, addrsOf(r.Band(Dynamic))) || !slices.Equal(late, addrsOf(r.Band(Static))) {
				t.Errorf("%s: drew %s, and then %s", r, early, late)
			}
		}
	}
	p := NewPool()
	got := sorted(drain(t, p, requestOf(t, "10.0.128.0/17")))
	if err := p.check(); err != nil || len(slices.Compact(got)) != 32766 {
		t.Errorf("%d addresses, want 32766; %v", len(got), err)
	}
}

// TestTiersInOrder: a tier gives nothing while one before it has an address; empty ones are passed.
func TestTiersInOrder(t *testing.T) {
	request := Request{Tiers: []*Tier{
		nil, tierOf(t, span("10.0.0.0-10.0.0.19")), {}, tierOf(t, spans("10.0.0.10-10.0.0.29 10.0.2.1-10.0.2.1")...), tierOf(t, span("10.0.0.0-10.0.0.39")),
	}}
	got := drain(t, NewPool(), request)
	for _, want := range []string{"10.0.0.0-10.0.0.19", "10.0.0.20-10.0.0.29 10.0.2.1-10.0.2.1", "10.0.0.30-10.0.0.39"} {
		list := addrsOf(spans(want)...)
		if part := sorted(got[:min(len(list), len(got))]); !slices.Equal(part, list) {
			t.Errorf("drew %s, want %s in any order", part, list)
		}
		got = got[min(len(list), len(got)):]
	}
	if len(got) > 0 {
		t.Errorf("drew %s as well", got)
	}
	for name, l := range map[string]Request{"zero": {}, "yield": {Yield: true}, "empty": {Tiers: []*Tier{nil, {}, tierOf(t)}, Yield: true}} {
		if d, err := NewPool().Draw(l); !errors.Is(err, ErrFull) {
			t.Errorf("%s gave %+v, %v", name, d, err)
		}
	}
}

func TestTwoFamilies(t *testing.T) {
	p := NewPool()
	d, err := p.Draw(Request{Tiers: []*Tier{tierOf(t, span("10.0.0.1-10.0.0.9")), nil, tierOf(t, span("fd00::1-fd00::9"))}})
	if !errors.Is(err, errTwoFamilies) || d != (Drawn{}) || p.Usage(all4).Allocated+p.Usage(all6).Allocated > 0 {
		t.Fatalf("got %+v, %v, want a refusal", d, err)
	}
}

func TestSameSeedSameDraws(t *testing.T) {
	draws := func(p *Pool) []netip.Addr { return drain(t, p, requestOf(t, "10.0.0.0/24", "10.0.1.0/26")) }
	if !slices.Equal(draws(NewPoolWithRand(seeded(1))), draws(NewPoolWithRand(seeded(1)))) {
		t.Error("the same seed gave other draws")
	}
	if slices.Equal(draws(NewPool()), draws(NewPool())) {
		t.Error("without a seed, two pools gave the same draws")
	}
}

// TestUniform compares how often each address comes with how often it should (chi-square, five
// standard deviations), from one run and from 300: drawn by trying, and by counting.
func TestUniform(t *testing.T) {
	for _, start := range []string{"10.1.0.0", "fd00::"} {
		var many []Span
		for i := range 300 {
			first := shifted(addr(start), int64(1000*i+i*i%500))
			many = append(many, Span{first, shifted(first, int64(i%4))})
		}
		for name, tc := range map[string]struct {
			tier *Tier
			used int
		}{
			"one run":                         {tierOf(t, Span{addr(start), shifted(addr(start), 20_000)}), 995},
			"many runs":                       {tierOf(t, many...), 500},
			"many runs, nearly full":          {tierOf(t, many...), 970},
			"runs that overlap count once":    {tierOf(t, Span{addr(start), shifted(addr(start), 99)}, Span{addr(start), shifted(addr(start), 120)}), 300},
			"runs of which nothing is in use": {tierOf(t, many[:3]...), 0},
		} {
			p, rng := NewPoolWithRand(seeded(14)), seeded(15)
			times := map[netip.Addr]int{}
			for _, a := range addrsOf(tc.tier.spans()...) {
				if rng.IntN(1000) < tc.used {
					p.Observe(a, Allocated)
				} else {
					times[a] = 0
				}
			}
			eligible, draws := len(times), 100*len(times)
			for range draws {
				d, err := p.Draw(Request{Tiers: []*Tier{tc.tier}})
				if err != nil {
					t.Fatal(err)
				}
				p.Forget(d.Addr)
				times[d.Addr]++
			}
			chi2 := 0.0
			for _, n := range times {
				chi2 += (float64(n) - 100) * (float64(n) - 100) / 100
			}
			freedom := float64(eligible - 1)
			if far := 5 * math.Sqrt(2*freedom); len(times) != eligible || math.Abs(chi2-freedom) > far {
				t.Errorf("%s, %s: %d of %d addresses, chi-square is %.1f, want %.0f±%.0f", start, name, len(times), eligible, chi2, freedom, far)
			}
		}
	}
}

// script is a random source that says what it was told to say.
type script []uint64

// Uint64 implements rand.Source.
func (s *script) Uint64() uint64 {
	n := (*s)[0]
	*s = (*s)[1:]
	return n
}

// TestMoreThan64Bits: two empty /64 ranges have more addresses than one random number can tell.
func TestMoreThan64Bits(t *testing.T) {
	for want, says := range map[string]script{
		"fd00::101":                      {0, 0},
		"fd00::106":                      {1, math.MaxUint64, 0, 5},       // 2^65 is too many
		"fd00:0:0:1:ffff:ffff:ffff:ffff": {1, math.MaxUint64 - 514},       // the last
		"fd00::107":                      {1, math.MaxUint64 - 513, 0, 6}, // one more than the last
		"fd00::108":                      {0xfffffffffffffffe, 7},         // only the bits that count
		"fd00:0:0:1::202":                {1, 0},                          // into the second
	} {
		d, err := NewPoolWithRand(&says).Draw(requestOf(t, "fd00::/64", "fd00:0:0:1::/64"))
		if err != nil || d.Addr != addr(want) || len(says) > 0 {
			t.Errorf("got %s, %v, want %s; %d numbers were not asked for", d.Addr, err, want, len(says))
		}
	}
}

// TestCoolingYieldsInOrder: addresses yield once each, longest cooling first, and only after all
// free ones. The last time that was told counts, in whatever order.
func TestCoolingYieldsInOrder(t *testing.T) {
	for _, list := range [][]Span{
		spans("10.0.0.1-10.0.0.254"), spans("::-::3 ::77-::ff"), spans("0.0.0.0-0.0.0.2 255.255.255.253-255.255.255.255"),
		{{shifted(all6.Last, -40), all6.Last}},
	} {
		p, order, request := NewPool(), addrsOf(list...), yielding(t, list...)
		seeded(14).Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		for i, a := range slices.Backward(order) {
			switch i % 4 {
			case 0:
				p.Observe(a, Allocated)
			case 1:
				for since := range 9 { // none of these is kept
					p.Cool(a, at(1000-since))
				}
			}
			p.Cool(a, at(i))
		}
		if err := p.check(); err != nil {
			t.Error(err)
		}
		for _, a := range []string{"10.0.0.0", "10.0.1.1", "fd00::1", "0.0.0.7", "::ffff:10.0.0.7"} { // longer, but elsewhere
			p.Cool(addr(a), at(-1))
		}
		if d, err := p.Draw(Request{Tiers: request.Tiers}); !errors.Is(err, ErrFull) {
			t.Fatalf("%s: a cooling address was drawn: %+v, %v", list, d, err)
		}
		last := order[len(order)-1]
		p.Release(last)
		if got := drain(t, p, request); len(got) != len(order) || got[0] != last || !slices.Equal(got[1:], order[:len(order)-1]) {
			t.Errorf("%s: cooling yielded in the order\n%s, want\n%s", list, got, order)
		}
		if err := p.check(); err != nil {
			t.Error(err)
		}
	}
}

// TestCoolingYieldsOnce: late news of the cool-down of a drawn address do not hand it out twice.
func TestCoolingYieldsOnce(t *testing.T) {
	p, request := NewPool(), yielding(t, span("fd00::1-fd00::2"))
	one, two := addr("fd00::1"), addr("fd00::2")
	p.Cool(one, at(0))
	p.Cool(two, at(1))
	if first, err := p.Draw(request); err != nil || first != (Drawn{Addr: one, Cooled: true}) || p.State(one) != Assumed {
		t.Fatalf("got %+v, %v, want %s", first, err, one)
	}
	p.Cool(one, at(0))
	if second, err := p.Draw(request); err != nil || second.Addr != two {
		t.Errorf("got %s, %v, want %s", second.Addr, err, two)
	}
	if third, err := p.Draw(request); !errors.Is(err, ErrFull) {
		t.Errorf("got %s, %v, want ErrFull", third.Addr, err)
	}
	p.Forget(two)
	p.Forget(one)
	p.Cool(one, at(0)) // given back
	if got := drain(t, p, request); !slices.Equal(got, []netip.Addr{two, one}) {
		t.Errorf("got %s, want the free one and then the cooling one", got)
	}
}

// TestManyCooling: of thousands that cool, one that comes late but has cooled longest yields first.
func TestManyCooling(t *testing.T) {
	p, request := NewPool(), yielding(t, span("10.0.0.0-10.0.15.255"))
	want := addrsOf(request.Tiers[0].spans()...)
	for i, a := range want {
		p.Cool(a, at(i))
	}
	for _, a := range want[:3] {
		if d, err := p.Draw(request); err != nil || d.Addr != a {
			t.Fatalf("got %+v, %v, want %s", d, err, a)
		}
	}
	p.Forget(want[1])
	p.Cool(want[1], at(-1))
	if got := drain(t, p, request); !slices.Equal(got, slices.Concat(want[1:2], want[3:])) {
		t.Errorf("the first of %d are %s", len(got), got[:3])
	}
}

// TestFarTimes: the zero Time is long ago; in any zone and clock, a tie goes to the lower address.
func TestFarTimes(t *testing.T) {
	p, now := NewPool(), time.Now()
	order := []time.Time{
		{}, time.Date(1700, 1, 1, 0, 0, 0, 0, time.UTC), at(0).Add(-1), at(0), at(1).In(time.FixedZone("east", 3600)), at(1), now, now.Round(0),
		time.Date(9000, 1, 1, 0, 0, 0, 0, time.UTC), at(1 << 50),
	}
	want := addrsOf(Span{addr("fd00::1"), shifted(addr("fd00::1"), int64(len(order)-1))})
	for i := range order {
		i = (i*3 + 2) % len(order)
		p.Cool(want[i], order[i])
	}
	if got := drain(t, p, Request{Tiers: []*Tier{tierOf(t, span("fd00::1-"+want[len(want)-1].String()))}, Yield: true}); !slices.Equal(got, want) {
		t.Errorf("yielded %s, want %s", got, want)
	}
}

// TestAllocations pins what the comments promise: in a pool that is in use, nothing is allocated.
func TestAllocations(t *testing.T) {
	p, request, r := NewPoolWithRand(seeded(19)), requestOf(t, "10.0.0.0/20", "10.0.8.0/22"), rangeOf(t, "10.0.0.0/20")
	nearlyFull := Request{Tiers: requestOf(t, "10.1.12.0/27", "10.1.13.0/27", "10.1.14.0/27").Tiers[:1]}
	for n, l := range map[int]Request{2000: request, 40: nearlyFull} { // of 4,094, and of 3 x 14
		for range n {
			d, err := p.Draw(l)
			if err != nil {
				t.Fatal(err)
			}
			p.Observe(d.Addr, Allocated)
		}
	}
	a, other := addr("10.0.9.9"), addr("10.0.0.77")
	p.Cool(a, at(1))
	for name, f := range map[string]func(){
		"State, Usage": func() {
			p.State(a)
			p.Usage(r.Span())
		},
		"Draw, Forget": func() {
			d, _ := p.Draw(request)
			p.Forget(d.Addr)
		},
		"Draw from few, Forget": func() {
			d, _ := p.Draw(nearlyFull)
			p.Forget(d.Addr)
		},
		"Assume, Observe, Release": func() {
			p.Assume(other)
			p.Observe(other, Allocated)
			p.Release(other)
		},
		"Cool":          func() { p.Cool(a, at(1)) },
		"Tier.Contains": func() { request.Tiers[0].Contains(a) },
		"Range.BandOf":  func() { r.BandOf(a) },
	} {
		if got := testing.AllocsPerRun(200, f); got != 0 {
			t.Errorf("%s allocates %v times", name, got)
		}
	}
}
