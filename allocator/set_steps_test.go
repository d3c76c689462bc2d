package allocator_test

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"net/netip"
	"slices"

	"github.com/google/go-cmp/cmp"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/allocator/internal/golden"
)

// world is where the steps of a test play: 65536 addresses at equal distances.
type world struct {
	first  netip.Addr
	stride uint64
}

// Every address of a world with a stride of 64 has a word for itself, so that few of them make a deep tree.
var worlds = []world{
	{addr("10.0.0.0"), 1},
	{addr("10.0.0.0"), 64},
	{addr("0.0.0.0"), 1},
	{addr("255.255.0.0"), 1},
	{addr("0.0.0.0"), 65535},
	{addr("fd00::"), 1},
	{addr("fd00::"), 64},
	{addr("::"), 61},
	{addr("ffff:ffff:ffff:ffff:ffff:ffff:ffff:0"), 1},
	{addr("ffff:ffff:ffff:ffff:ffff:ffff:ffc0:3f"), 64},
	{addr("0:0:0:7:ffff:ffff:fff0:0"), 64},
	{addr("fd00::1"), 1<<48 + 7},
}

// at returns address i.
func (w world) at(i uint16) netip.Addr {
	n := new(big.Int).Mul(new(big.Int).SetUint64(w.stride), big.NewInt(int64(i)))
	return golden.Addr(n.Add(n, golden.Number(w.first)), w.first.Is4())
}

// span returns the addresses of the world from i to j and all between them; 0 and 65535 stand for the ends of the
// family.
func (w world) span(i, j uint16) allocator.Span {
	s := allocator.Span{First: w.at(i), Last: w.at(j)}
	whole := all6
	if w.first.Is4() {
		whole = all4
	}
	if i == 0 {
		s.First = whole.First
	}
	if j == math.MaxUint16 {
		s.Last = whole.Last
	}
	return s
}

// setStep is something that is done to a Set: six bytes, so that a fuzzer can make one up. at and to are places in
// the world.
type setStep struct {
	op     byte
	at, to uint16
	n      byte
}

const (
	insertOne  = iota
	deleteOne  // the address at
	insertMany // n+1 addresses from at on
	deleteMany
	askCounts // about the span from at to to
	askFree
	setOps
)

func (s setStep) String() string {
	name := [...]string{"insert", "delete", "insert many", "delete many", "count", "ask for free ones"}[s.op%setOps]
	return fmt.Sprintf("%s at %d, to %d, n %d", name, s.at, s.to, s.n)
}

// setSteps cuts bytes into steps.
func setSteps(data []byte) (steps []setStep) {
	for piece := range slices.Chunk(data, 6) {
		if len(piece) == 6 {
			steps = append(steps, setStep{
				op: piece[0], n: piece[5],
				at: uint16(piece[1])<<8 | uint16(piece[2]),
				to: uint16(piece[3])<<8 | uint16(piece[4]),
			})
		}
	}
	return steps
}

// setPair is a Set and its oracle.
type setPair struct {
	world
	real allocator.Set
	gold golden.Set
}

// runSet returns a runner of steps in a world. It checks the tree after every so many of them, and what is in the
// set at the end.
func runSet(w world, every int) func([]setStep) error {
	return func(steps []setStep) error {
		p := &setPair{world: w, gold: golden.Set{}}
		for i, s := range steps {
			if err := p.step(s); err != nil {
				return fmt.Errorf("step %d: %w", i, err)
			}
			if i%every == 0 {
				if err := p.check(); err != nil {
					return fmt.Errorf("step %d: %w", i, err)
				}
			}
		}
		if err := p.check(); err != nil {
			return err
		}
		return p.askAll(w.span(0, math.MaxUint16))
	}
}

func (p *setPair) step(s setStep) error {
	switch s.op % setOps {
	case insertOne:
		return p.insert(s.at)
	case deleteOne:
		return p.delete(s.at)
	case insertMany:
		return p.each(s, p.insert)
	case deleteMany:
		return p.each(s, p.delete)
	case askCounts:
		return p.askAll(p.span(s.at, s.to))
	default:
		return p.askFree(p.span(s.at, s.to), uint64(s.n))
	}
}

// each does one thing to s.n+1 addresses, downwards if s.to is odd.
func (p *setPair) each(s setStep, do func(uint16) error) error {
	for i := range uint16(s.n) + 1 {
		if s.to%2 == 1 {
			i = -i
		}
		if err := do(s.at + i); err != nil {
			return err
		}
	}
	return nil
}

func (p *setPair) insert(i uint16) error {
	a := p.at(i)
	if got, want := p.real.Insert(a), p.gold.Insert(a); got != want {
		return fmt.Errorf("Insert(%s) = %v", a, got)
	}
	return p.present(a, true)
}

func (p *setPair) delete(i uint16) error {
	a := p.at(i)
	if got, want := p.real.Delete(a), p.gold.Delete(a); got != want {
		return fmt.Errorf("Delete(%s) = %v", a, got)
	}
	return p.present(a, false)
}

func (p *setPair) present(a netip.Addr, want bool) error {
	if p.real.Contains(a) != want {
		return fmt.Errorf("Contains(%s) is not %v", a, want)
	}
	if p.real.Len() != len(p.gold) {
		return fmt.Errorf("Len = %d, want %d", p.real.Len(), len(p.gold))
	}
	return nil
}

// check looks into the tree.
func (p *setPair) check() error {
	_, err := p.real.Check()
	return err
}

// askAll compares the members in a span and their number.
func (p *setPair) askAll(s allocator.Span) error {
	want := p.gold.All(golden.Span(s))
	if diff := cmp.Diff(want, slices.Collect(p.real.All(s)), byEquality); diff != "" {
		return fmt.Errorf("All(%s) (-want +got):\n%s", s, diff)
	}
	if got := p.real.CountIn(s); got != uint64(len(want)) {
		return fmt.Errorf("CountIn(%s) = %d, want %d", s, got, len(want))
	}
	for _, a := range want[:min(len(want), 3)] {
		if !p.real.Contains(a) {
			return fmt.Errorf("%s is not a member", a)
		}
	}
	return nil
}

// askFree compares the free addresses of a span: the first, the last, the one that is not there any more, and k.
func (p *setPair) askFree(s allocator.Span, k uint64) error {
	members := p.gold.All(golden.Span(s))
	free := new(big.Int).Sub(golden.Span(s).Size(), big.NewInt(int64(len(members))))
	places := []uint64{0, k, k << 8, math.MaxUint64, math.MaxUint64 - k}
	if free.IsUint64() && free.Sign() > 0 {
		n := free.Uint64()
		places = append(places, n/2, n-1, n)
	}
	for _, k := range places {
		want, wantOK := golden.NthBetween(members, golden.Span(s), k)
		if got, ok := p.real.NthFree(s, k); got != want || ok != wantOK {
			return fmt.Errorf("NthFree(%s, %d) = %s, %v, want %s, %v", s, k, got, ok, want, wantOK)
		}
	}
	return nil
}

// shape makes up steps of some kind.
type shape func(rng *rand.Rand, n int) []setStep

// places makes a shape of a way to find places: single insertions and deletions there, with some questions between.
// The set grows and is thinned out in turn.
func places(next func(rng *rand.Rand, i int) uint16) shape {
	return func(rng *rand.Rand, n int) []setStep {
		steps := make([]setStep, n)
		for i := range steps {
			phase := n / 4
			grows := i/phase%2 == 0
			s := setStep{op: insertOne, at: next(rng, i%phase), to: uint16(rng.Uint32()), n: byte(rng.Uint32())}
			switch r := rng.IntN(100); {
			case r < 3:
				s.op, s.at, s.to = askCounts+byte(r&1), next(rng, rng.IntN(phase)), next(rng, rng.IntN(phase))
				if rng.IntN(4) > 0 {
					s.at, s.to = min(s.at, s.to), max(s.at, s.to)
				}
			case r < 4:
				s.op, s.at = askCounts+byte(i&1), uint16(rng.Uint32())
			case grows == (r < 20):
				s.op = deleteOne
			}
			steps[i] = s
		}
		return steps
	}
}

var shapes = map[string]shape{
	"dense":     places(func(rng *rand.Rand, _ int) uint16 { return uint16(rng.IntN(300)) + 7 }),
	"sparse":    places(func(rng *rand.Rand, _ int) uint16 { return uint16(rng.Uint32()) }),
	"clustered": places(func(rng *rand.Rand, _ int) uint16 { return uint16(rng.IntN(5)*13000 + rng.IntN(40)) }),
	"up":        places(func(_ *rand.Rand, i int) uint16 { return uint16(i) }),
	"down":      places(func(_ *rand.Rand, i int) uint16 { return uint16(-i) }),
	"in runs": func(rng *rand.Rand, n int) []setStep {
		steps := make([]setStep, n/20)
		for i := range steps {
			steps[i] = setStep{
				op: byte(rng.IntN(setOps)), at: uint16(rng.IntN(2000)), to: uint16(rng.Uint32()), n: byte(rng.Uint32()),
			}
		}
		return steps
	},
}
