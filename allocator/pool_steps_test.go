package allocator_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"

	"github.com/google/go-cmp/cmp"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/allocator/internal/golden"
)

// playground is the ranges that the steps of a test draw from, of one family. They overlap in every way: one inside
// another, at the start, at the end, twice the same, static here and dynamic there; one has no address at all.
type playground struct {
	ranges []allocator.Range
	addrs  []netip.Addr // all of them, and some neighbours
}

var playgrounds = [2]playground{
	makePlayground("10.0.0.0/26", "10.0.0.0/27", "10.0.0.32/27", "10.0.0.16/28", "10.0.0.4/30", "10.0.1.0/29", "10.0.2.0/31", "10.0.0.0/27"),
	makePlayground("fd00::/122", "fd00::/123", "fd00::20/123", "fd00::10/124", "fd00::4/126", "fd00:0:0:1::/125", "fd00:0:0:2::/128", "fd00::/123"),
}

func makePlayground(prefixes ...string) playground {
	var p playground
	for _, prefix := range prefixes {
		r, err := allocator.ParseRange(prefix)
		if err != nil {
			panic(err)
		}
		p.ranges = append(p.ranges, r)
		first := r.Prefix().Addr()
		size := golden.Range{Prefix: r.Prefix()}.Size().Int64()
		p.addrs = append(p.addrs, golden.Span{First: shifted(first, -1), Last: shifted(first, size)}.Addrs()...)
	}
	slices.SortFunc(p.addrs, netip.Addr.Compare)
	p.addrs = slices.Compact(p.addrs)
	return p
}

func (p playground) at(i byte) netip.Addr { return p.addrs[int(i)%len(p.addrs)] }

// span returns up to 16 addresses from place i on.
func (p playground) span(i, n byte) allocator.Span {
	first := p.at(i)
	return allocator.Span{First: first, Last: shifted(first, int64(n%16))}
}

// poolStep is something that is done to a Pool: seven bytes, so that a fuzzer can make one up.
//
//	0  what to do
//	1  with which address
//	2  with how many spans in each tier: two bits for each
//	3  with how many tiers, and how long the spans are
//	4  with which exclusions
//	5  bit 0: family; bit 1: cooling yields; bit 2: one tier is of the other family; the rest: where usage is asked
//	6  at which time cooling began
type poolStep [7]byte

const (
	draw = iota
	assume
	forget
	release
	observeAllocated
	observeReserved
	cool
	poolOps
)

func (s poolStep) op() byte { return s[0] % poolOps }

func (s poolStep) playground() playground { return playgrounds[s[5]&1] }

func (s poolStep) addr() netip.Addr { return s.playground().at(s[1]) }

// lot returns the same Lot for the code and for the oracle.
func (s poolStep) lot() (l allocator.Lot, want golden.Lot, err error) {
	l.Yield = s[5]&2 != 0
	want.Yield = l.Yield
	for i := range s[3] % 4 {
		spans, exclude := s.spans(i), s.exclude()
		tier, err := allocator.NewTier(spans, exclude)
		if err != nil {
			return l, want, err
		}
		l.Tiers = append(l.Tiers, tier)
		want.Tiers = append(want.Tiers, golden.NewTier(goldenSpans(spans), goldenSpans(exclude)))
	}
	return l, want, nil
}

func goldenSpans(list []allocator.Span) (want []golden.Span) {
	for _, s := range list {
		want = append(want, golden.Span(s))
	}
	return want
}

// spans are those of tier i: up to three runs and an empty one.
func (s poolStep) spans(i byte) []allocator.Span {
	list := []allocator.Span{{}}
	for j := range s[2] >> (2 * i) & 3 {
		list = append(list, s.playground().span(s[1]+29*i+53*j, s[3]+7*j))
	}
	return list
}

func (s poolStep) exclude() (list []allocator.Span) {
	ground := s.playground()
	if s[4]%3 > 0 {
		list = append(list, ground.span(s[4], s[4]>>2))
	}
	if s[4]%3 > 1 {
		list = append(list, ground.span(s[1], s[4]>>4), playgrounds[1-s[5]&1].span(0, 99), allocator.Span{})
	}
	return list
}

func (s poolStep) String() string {
	switch s.op() {
	case draw:
		l, _, err := s.lot()
		text := fmt.Sprintf("Draw, cooling yields: %v; %v; %x; tiers", l.Yield, err, s[:])
		for _, tier := range l.Tiers {
			text += fmt.Sprint(" ", tier.Spans())
		}
		return text
	case observeAllocated, observeReserved:
		return fmt.Sprintf("Observe(%s, %s); %x", s.addr(), s.state(), s[:])
	}
	name := [...]string{
		assume: "Assume", forget: "Forget", release: "Release", cool: "Cool",
	}[s.op()]
	return fmt.Sprintf("%s(%s); %x", name, s.addr(), s[:])
}

func (s poolStep) state() allocator.State {
	return allocator.Allocated + allocator.State(s.op()-observeAllocated)
}

// poolSteps cuts bytes into steps.
func poolSteps(data []byte) (steps []poolStep) {
	for piece := range slices.Chunk(data, len(poolStep{})) {
		if len(piece) == len(poolStep{}) {
			steps = append(steps, poolStep(piece))
		}
	}
	return steps
}

// randomPoolSteps makes up steps that fill the pool and empty it in turn.
func randomPoolSteps(rng *rand.Rand, n int) []poolStep {
	steps := make([]poolStep, n)
	for i := range steps {
		for j := range steps[i] {
			steps[i][j] = byte(rng.Uint32())
		}
		if steps[i][5] &^= 4; rng.IntN(50) == 0 {
			steps[i][5] |= 4
		}
		if fills := i/(n/4)%2 == 0; fills && rng.IntN(2) == 0 {
			steps[i][0] = draw
		}
	}
	return steps
}

// poolPair is a Pool and its oracle.
type poolPair struct {
	real *allocator.Pool
	gold *golden.Pool
}

// runPool does everything twice. After each step every address is asked for its state, and the usage of some span
// is compared; after every so many the insides of the pool are checked.
func runPool(every int) func([]poolStep) error {
	return func(steps []poolStep) error {
		p := poolPair{allocator.NewPoolWith(rand.NewPCG(11, 0)), golden.NewPool()}
		for i, s := range steps {
			if err := p.step(s); err != nil {
				return fmt.Errorf("step %d: %w", i, err)
			}
			if i%every == 0 {
				if err := p.check(s); err != nil {
					return fmt.Errorf("step %d: %w", i, err)
				}
			}
		}
		return p.real.Check()
	}
}

func (p poolPair) step(s poolStep) error {
	a := s.addr()
	switch s.op() {
	case draw:
		return p.draw(s)
	case assume:
		if got, want := p.real.Assume(a), p.gold.Assume(a); got != want {
			return fmt.Errorf("assuming %s: got %v, want %v", a, got, want)
		}
	case cool:
		p.real.Cool(a, at(int(s[6])))
		p.gold.Cool(a, at(int(s[6])))
	case forget:
		p.real.Forget(a)
		p.gold.Forget(a)
	case release:
		p.real.Release(a)
		p.gold.Release(a)
	default:
		p.real.Observe(a, s.state())
		p.gold.Observe(a, s.state().String())
	}
	if got, want := p.real.State(a).String(), p.gold.State(a); got != want {
		return fmt.Errorf("%s is %s, want %s", a, got, want)
	}
	return nil
}

// draw asks the oracle whether the result is one of those that may be drawn.
func (p poolPair) draw(s poolStep) error {
	l, want, err := s.lot()
	if err != nil {
		return err
	}
	if err := sameTiers(l, want); err != nil {
		return err
	}
	if s[5]&4 != 0 && len(want.Addrs()) > 0 {
		return p.refuse(l, playgrounds[1-s[5]&1].ranges[0].Span())
	}
	d, err := p.real.Draw(l)
	eligible := p.gold.Eligible(want)
	if len(eligible) == 0 {
		return p.full(want, d, err)
	}
	if err != nil || !slices.Contains(eligible, d.Addr) {
		return fmt.Errorf("got %s, %w, want one of %s", d.Addr, err, eligible)
	}
	if cooled := p.gold.State(d.Addr) == golden.Cooling; d.Cooled != cooled {
		return fmt.Errorf("got %+v, want cooled %v", d, cooled)
	}
	p.gold.Take(d.Addr)
	return nil
}

// sameTiers compares what may be drawn in all.
func sameTiers(l allocator.Lot, want golden.Lot) error {
	if len(l.Tiers) != len(want.Tiers) {
		return fmt.Errorf("%d tiers, want %d", len(l.Tiers), len(want.Tiers))
	}
	for i, tier := range l.Tiers {
		if got := addrsOf(tier); !slices.Equal(got, want.Tiers[i]) || tier.Size() != uint64(len(got)) {
			return fmt.Errorf("tier %d has %d addresses, %s, want %s", i, tier.Size(), got, want.Tiers[i])
		}
	}
	return nil
}

// refuse checks that a stranger among the tiers is refused.
func (p poolPair) refuse(l allocator.Lot, stranger allocator.Span) error {
	tier, err := allocator.NewTier([]allocator.Span{stranger}, nil)
	if err != nil {
		return err
	}
	l.Tiers = append(l.Tiers, tier)
	if d, err := p.real.Draw(l); err == nil || errors.Is(err, allocator.ErrFull) || d.Addr.IsValid() {
		return fmt.Errorf("got %s, %w of two families", d.Addr, err)
	}
	return nil
}

// full checks what is said when there is nothing to draw.
func (p poolPair) full(want golden.Lot, d allocator.Drawn, err error) error {
	var full *allocator.FullError
	if !errors.As(err, &full) || !errors.Is(err, allocator.ErrFull) || d != (allocator.Drawn{}) {
		return fmt.Errorf("got %+v, %w, want ErrFull", d, err)
	}
	if diff := cmp.Diff(allocator.Usage(p.gold.Usage(want.Addrs())), full.Usage); diff != "" {
		return fmt.Errorf("the error (-want +got):\n%s", diff)
	}
	return nil
}

// check compares every state, and the usage of a span that depends on the step.
func (p poolPair) check(s poolStep) error {
	for _, ground := range playgrounds {
		for _, a := range ground.addrs {
			if got, want := p.real.State(a).String(), p.gold.State(a); got != want {
				return fmt.Errorf("%s is %s, want %s", a, got, want)
			}
		}
	}
	ground := s.playground()
	sp := allocator.Span{First: ground.at(s[1]), Last: shifted(ground.at(s[1]), int64(s[4]%80))}
	if s[5]&8 != 0 {
		sp = ground.ranges[int(s[5]>>4)%len(ground.ranges)].Span()
	}
	if diff := cmp.Diff(allocator.Usage(p.gold.Usage(golden.Span(sp).Addrs())), p.real.Usage(sp)); diff != "" {
		return fmt.Errorf("usage of %s (-want +got):\n%s", sp, diff)
	}
	limit := int(s[3]%20) - 1
	if diff := cmp.Diff(p.gold.Used(golden.Span(sp), limit), p.real.Used(sp, limit), byEquality); diff != "" {
		return fmt.Errorf("first %d used of %s (-want +got):\n%s", limit, sp, diff)
	}
	return p.real.Check()
}
