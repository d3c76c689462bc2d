package allocator

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// check returns an error that names the first broken promise of the pool's insides: every reserved,
// assumed or cooling address is used, and is only one of these.
func (p *Pool) check() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := interval{uint128{}, ones(128)}
	for _, f := range []*familyPool{&p.four, &p.six} {
		seen := map[uint128]bool{}
		for _, s := range []*set{&f.reserved, &f.assumed, &f.cooling.members} {
			if err := s.check(); err != nil {
				return err
			}
			for a := range s.all(all) {
				if seen[a] || !f.used.contains(a) {
					return fmt.Errorf("%s is in two states, or in one without being used", a)
				}
				seen[a] = true
			}
		}
		if err := f.used.check(); err != nil {
			return err
		}
		for a := range f.fresh.all(all) {
			if !f.assumed.contains(a) {
				return fmt.Errorf("%s was free before it was assumed, and is not assumed", a)
			}
		}
		if err := errors.Join(f.fresh.check(), f.cooling.ages.check()); err != nil {
			return err
		}
		if n := uint64(f.cooling.ages.n); n != f.cooling.members.n {
			return fmt.Errorf("%d addresses are cooling, %d of these have a time", f.cooling.members.n, n)
		}
	}
	return nil
}

// slowPool is a pool that is obviously right: it asks about every address what may be drawn.
type slowPool struct {
	states map[netip.Addr]State
	since  map[netip.Addr]time.Time
	fresh  map[netip.Addr]bool // assumed, and free before
}

func (p *slowPool) set(a netip.Addr, s State, since time.Time) {
	if p.states[a] == Assumed && s == Cooling {
		return
	}
	p.fresh[a] = s == Assumed && p.states[a] == Free
	p.states[a], p.since[a] = s, since
}

// eligible are the addresses of which one may be drawn now. One that has to yield is cooling.
func (p *slowPool) eligible(tiers [][]netip.Addr, yield bool) []netip.Addr {
	var cooling []netip.Addr
	for _, tier := range tiers {
		if free := slices.DeleteFunc(slices.Clone(tier), func(a netip.Addr) bool { return p.states[a] != Free }); len(free) > 0 {
			return free
		}
		cooling = append(cooling, slices.DeleteFunc(slices.Clone(tier), func(a netip.Addr) bool { return p.states[a] != Cooling })...)
	}
	if !yield || len(cooling) == 0 {
		return nil
	}
	return []netip.Addr{slices.MinFunc(cooling, func(a, b netip.Addr) int {
		if c := p.since[a].Compare(p.since[b]); c != 0 {
			return c
		}
		return a.Compare(b)
	})}
}

// usage counts the addresses of a list.
func (p *slowPool) usage(list []netip.Addr) (u Usage) {
	for _, a := range list {
		u.Size++
		switch state := p.states[a]; {
		case p.fresh[a]:
			u.Free++
			u.Assumed++
		case state == Free:
			u.Free++
		case state == Reserved:
			u.Reserved++
		case state == Cooling:
			u.Cooling++
		default:
			u.Allocated++
		}
	}
	return u
}

// poolStep is something that is done to a Pool: seven bytes, so that a fuzzer can make one up.
//
//	0  what to do
//	1  with which address
//	2  with how many spans in each tier: two bits for each
//	3  with how many tiers, and how long the spans are
//	4  with which exclusions
//	5  bit 0: family; bit 1: cooling yields
//	6  when it began to cool
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

// grounds are where steps play: 90 addresses of each family.
var grounds = [2][]netip.Addr{addrsOf(span("10.0.0.0-10.0.0.69"), span("10.0.3.0-10.0.3.19")), addrsOf(span("fd00::-fd00::45"), span("fd00::3:0-fd00::3:13"))}

func (s poolStep) at(i byte) netip.Addr { return grounds[s[5]&1][int(i)%90] }

// span returns up to 16 addresses from place i on.
func (s poolStep) span(i, n byte) Span { return Span{s.at(i), shifted(s.at(i), int64(n%16))} }

// request returns the same for the code and for the oracle.
func (s poolStep) request() (r Request, tiers [][]netip.Addr, err error) {
	r.Yield = s[5]&2 != 0
	exclude := []Span{s.span(s[4], s[4]>>2), {}, poolStep{5: 1 - s[5]&1}.span(0, 99)}[s[4]%2:]
	for i := range s[3] % 4 {
		list := []Span{{}}
		for j := range s[2] >> (2 * i) & 3 {
			list = append(list, s.span(s[1]+29*i+53*j, s[3]+7*j))
		}
		tier, err := NewTier(list, exclude)
		if err != nil {
			return r, nil, err
		}
		want := slices.DeleteFunc(slices.Compact(sorted(addrsOf(list...))), func(a netip.Addr) bool { return has(exclude, a) })
		if got := addrsOf(tier.spans()...); !slices.Equal(got, want) {
			return r, nil, fmt.Errorf("the tier of %s without %s is %s", list, exclude, got)
		}
		r.Tiers, tiers = append(r.Tiers, tier), append(tiers, want)
	}
	return r, tiers, nil
}

// runPool does everything twice. After each step every address is asked for its state.
func runPool(steps []poolStep) error {
	real, slow := NewPoolWithRand(seeded(11)), &slowPool{map[netip.Addr]State{}, map[netip.Addr]time.Time{}, map[netip.Addr]bool{}}
	for i, s := range steps {
		if err := s.do(real, slow); err != nil {
			return fmt.Errorf("step %d, %x: %w", i, s, err)
		}
		if err := s.compare(real, slow); err != nil {
			return fmt.Errorf("step %d, %x: %w", i, s, err)
		}
	}
	return real.check()
}

func (s poolStep) do(real *Pool, slow *slowPool) error {
	a := s.at(s[1])
	was := slow.states[a]
	switch s[0] % poolOps {
	case draw:
		return s.draw(real, slow)
	case assume:
		if can := was != Assumed && was != Allocated; real.Assume(a) != can {
			return fmt.Errorf("%s, which is %s, was assumed: %v", a, was, !can)
		} else if can {
			slow.set(a, Assumed, time.Time{})
		}
	case forget:
		real.Forget(a)
		if was == Assumed {
			slow.set(a, Free, time.Time{})
		}
	case release:
		real.Release(a)
		if was != Assumed {
			slow.set(a, Free, time.Time{})
		}
	case cool:
		real.Cool(a, at(int(s[6])))
		slow.set(a, Cooling, at(int(s[6])))
	default:
		state := Allocated + State(s[0]%poolOps-observeAllocated)
		real.Observe(a, state)
		slow.set(a, state, time.Time{})
	}
	return nil
}

// draw asks the oracle whether the result is one of those that may be drawn.
func (s poolStep) draw(real *Pool, slow *slowPool) error {
	r, tiers, err := s.request()
	if err != nil {
		return err
	}
	eligible := slow.eligible(tiers, r.Yield)
	d, err := real.Draw(r)
	if len(eligible) == 0 && (!errors.Is(err, ErrFull) || d != (Drawn{})) {
		return fmt.Errorf("got %+v, %w, want ErrFull", d, err)
	}
	if len(eligible) > 0 && (err != nil || !slices.Contains(eligible, d.Addr) || d.Cooled != (slow.states[d.Addr] == Cooling)) {
		return fmt.Errorf("got %+v, %w, want one of %s", d, err, eligible)
	}
	if err == nil {
		slow.set(d.Addr, Assumed, time.Time{})
	}
	return nil
}

// compare asks for every state, and for what is used of some span.
func (s poolStep) compare(real *Pool, slow *slowPool) error {
	for a, want := range slow.states {
		if got := real.State(a); got != want {
			return fmt.Errorf("%s is %s, want %s", a, got, want)
		}
	}
	sp, limit := s.span(s[1], s[4]), int(s[3]%20)-1
	list := addrsOf(sp)
	if got, want := real.Usage(sp), slow.usage(list); got != want {
		return fmt.Errorf("usage of %s is %+v, want %+v", sp, got, want)
	}
	used := slices.DeleteFunc(list, func(a netip.Addr) bool { return slow.states[a] == Free })
	if got := real.Used(sp, limit); !slices.Equal(got, used[:max(0, min(limit, len(used)))]) {
		return fmt.Errorf("first %d used of %s are %s, want those of %s", limit, sp, got, used)
	}
	return real.check()
}

func TestPoolRandomSteps(t *testing.T) {
	for seed := range uint64(30) {
		rng, steps := seeded(seed), make([]poolStep, 500)
		for i := range steps {
			for j := range steps[i] {
				steps[i][j] = byte(rng.Uint32())
			}
			if fills := i/125%2 == 0; fills && rng.IntN(2) == 0 {
				steps[i][0] = draw
			}
		}
		if err := runPool(steps); err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
	}
}

// FuzzPool makes steps of bytes, seven for each.
func FuzzPool(f *testing.F) {
	for _, steps := range [][]poolStep{
		{{draw}},                   // no tier at all
		{{draw, 0, 0, 1}},          // a tier without addresses
		{{draw, 9, 0xff, 3}},       // three tiers of three spans
		{{draw, 9, 0xff, 3, 0, 1}}, // of IPv6
		{{cool, 5, 0, 0, 0, 0, 9}, {cool, 6, 0, 0, 0, 0, 8}, {draw, 5, 1, 1, 0, 2}, {draw, 5, 1, 1, 0, 2}}, // the second comes first
		{{assume, 9, 0, 0, 0, 1}, {release, 9, 0, 0, 0, 1}, {assume, 9, 0, 0, 0, 1}},                       // late news
		{{assume, 9, 0, 0, 0, 1}, {observeReserved, 9, 0, 0, 0, 1}, {assume, 9, 0, 0, 0, 1}},               // early news
	} {
		var data []byte
		for _, s := range steps {
			data = append(data, s[:]...)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var steps []poolStep
		for piece := range slices.Chunk(data[:min(len(data), 420)/7*7], 7) {
			steps = append(steps, poolStep(piece))
		}
		if err := runPool(steps); err != nil {
			t.Fatal(err)
		}
	})
}

// TestStrangers: what is no Service address stays free. An IPv4-mapped address is another one.
func TestStrangers(t *testing.T) {
	p := NewPool()
	for _, a := range []netip.Addr{{}, addr("fe80::1%eth0"), addr("::ffff:10.0.0.1%eth0")} {
		p.Observe(a, Allocated)
		p.Cool(a, at(0))
		assumed := p.Assume(a)
		p.Forget(a)
		p.Release(a)
		if got := p.State(a); got != Free || assumed {
			t.Errorf("%s is %s", a, got)
		}
	}
	p.Observe(addr("10.0.0.1"), Reserved)
	p.Cool(addr("::ffff:10.0.0.1"), at(0))
	p.Release(addr("::ffff:10.0.0.1%eth0"))
	got := map[string]State{}
	for _, a := range []string{"10.0.0.1", "::ffff:10.0.0.1", "::10.0.0.1"} {
		got[a] = p.State(addr(a))
	}
	if want := (map[string]State{"10.0.0.1": Reserved, "::ffff:10.0.0.1": Cooling, "::10.0.0.1": Free}); !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if used := p.Used(all6, 9); !slices.Equal(used, []netip.Addr{addr("::ffff:10.0.0.1")}) {
		t.Errorf("used IPv6 addresses: %s", used)
	}
	for _, s := range []Span{{}, span("fd00::2-fd00::1"), span("10.0.0.1-fd00::1")} {
		if u := p.Usage(s); u != (Usage{}) || p.Used(s, 9) != nil {
			t.Errorf("%v: %+v", s, u)
		}
	}
}

func TestObserveRefusesWhatNobodyCanSee(t *testing.T) {
	for _, s := range []State{Free, Assumed, Cooling, 99} {
		func() {
			defer func() {
				if p := recover(); p == nil || !strings.Contains(fmt.Sprint(p), s.String()) {
					t.Errorf("observing %s: panic %v", s, p)
				}
			}()
			NewPool().Observe(addr("10.0.0.1"), s)
		}()
	}
}

func TestUsageOfLargeSpans(t *testing.T) {
	p, r := NewPool(), rangeOf(t, "fd00::/64")
	for i, s := range []State{Allocated, Allocated, Reserved} {
		p.Observe(shifted(r.Span().First, int64(i)), s)
	}
	p.Cool(r.Span().Last, at(0))
	p.Assume(addr("fd00::aaaa"))
	for _, s := range []Span{r.Span(), all6} {
		if diff := cmp.Diff(Usage{Size: 1<<64 - 1, Allocated: 2, Reserved: 1, Cooling: 1, Free: 1<<64 - 5, Assumed: 1}, p.Usage(s)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", s, diff)
		}
	}
}
