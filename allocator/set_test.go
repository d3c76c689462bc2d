package allocator

import (
	"fmt"
	"maps"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"
)

// check returns an error that names the first broken promise of the set: keys in order and within
// their leaves' bounds, right totals, no empty word, no two neighbours that could be one leaf.
func (s *set) check() error {
	var n uint64
	for i, words := range s.leaves {
		if s.before[i] != n {
			return fmt.Errorf("leaf %d claims %d members to its left, there are %d", i, s.before[i], n)
		}
		if i > 0 && len(s.leaves[i-1]) > 0 && !s.leaves[i-1][len(s.leaves[i-1])-1].key.less(s.first[i]) {
			return fmt.Errorf("leaf %d begins with %s, before the end of the leaf to its left", i, s.first[i])
		}
		for j, w := range words {
			if w.mask == 0 || w.key.less(s.first[i]) || j > 0 && !words[j-1].key.less(w.key) {
				return fmt.Errorf("word %d of leaf %d is empty or out of order", j, i)
			}
		}
		if len(words) > leafWords || len(s.leaves) > 1 && len(words) == 0 {
			return fmt.Errorf("leaf %d has %d words", i, len(words))
		}
		n += population(words)
	}
	if s.n != n {
		return fmt.Errorf("the set claims %d members, it has %d", s.n, n)
	}
	return nil
}

// slowSet is a set that is obviously right.
type slowSet map[uint128]bool

func (s slowSet) sorted() []uint128 { return slices.SortedFunc(maps.Keys(s), uint128.compare) }

// nthFreeOf: every member that is met on the way pushes the answer by one.
func nthFreeOf(members []uint128, k uint128) uint128 {
	for _, m := range members {
		if k.less(m) {
			break
		}
		k = k.plus(1)
	}
	return k
}

// world is where the steps of a test play: 65536 addresses at equal distances. At a distance of 64
// every address has its own word, so that few of them make many leaves.
type world struct {
	first  uint128
	stride uint64
}

func (w world) at(i uint16) uint128 {
	hi, lo := bits.Mul64(w.stride, uint64(i))
	return w.first.add(uint128{hi, lo})
}

var worlds = []world{
	{numberOf(addr("10.0.0.0")), 1},
	{numberOf(addr("255.255.0.0")), 1},
	{uint128{}, 61},
	{numberOf(addr("fd00::")), 64},
	{numberOf(addr("fd00::1")), 1<<48 + 7},
	{uint128{7, 1<<64 - 1<<20}, 64}, // across the middle of 128 bits
	{ones(128).minus(65535), 1},     // up to the end of the space
	{ones(128).minus(65535 * 64), 64},
}

// setStep is something that is done to a set: three bytes, so that a fuzzer can make one up. The
// first says how many addresses come, or go if it is odd, ascending or descending; the rest where.
type setStep [3]byte

func runSet(w world, steps []setStep, every int) error {
	var real set
	slow := slowSet{}
	for i, s := range steps {
		at, direction := uint16(s[1])<<8|uint16(s[2]), uint16(1)
		if s[0]&2 != 0 {
			direction = 0xffff
		}
		for range s[0]>>2 + 1 {
			a := w.at(at)
			had := slow[a]
			if s[0]&1 == 1 {
				delete(slow, a)
				if real.delete(a) != had {
					return fmt.Errorf("step %d: deleting %s, which was there: %t", i, a, had)
				}
			} else {
				slow[a] = true
				if real.insert(a) == had {
					return fmt.Errorf("step %d: inserting %s, which was there: %t", i, a, had)
				}
			}
			if real.contains(a) != slow[a] || real.n != uint64(len(slow)) {
				return fmt.Errorf("step %d: %s is a member: %t, of %d", i, a, real.contains(a), real.n)
			}
			at += direction
		}
		if i%every == 0 || i == len(steps)-1 {
			if err := compare(&real, slow, w.at(at), w.at(at+uint16(s[0])*97)); err != nil {
				return fmt.Errorf("step %d: %w", i, err)
			}
		}
	}
	return nil
}

// compare asks about the interval between two addresses, and about all of the space.
func compare(real *set, slow slowSet, from, to uint128) error {
	if err := real.check(); err != nil {
		return err
	}
	members := slow.sorted()
	if to.less(from) {
		from, to = to, from
	}
	for _, iv := range []interval{{from, to}, {uint128{}, ones(128)}, {from, from}} {
		want := slices.DeleteFunc(slices.Clone(members), func(a uint128) bool { return a.less(iv.first) || iv.last.less(a) })
		if got := slices.Collect(real.all(iv)); !slices.Equal(got, want) || real.countIn(iv) != uint64(len(want)) {
			return fmt.Errorf("between %s and %s are %d members, %s, want %s", iv.first, iv.last, real.countIn(iv), got, want)
		}
	}
	last := ones(128).minus(uint64(len(members)))
	for _, k := range []uint128{{}, {0, 1}, from.minus(real.rank(from)), to.minus(real.rank(to)), last} {
		if last.less(k) {
			continue
		}
		if got, want := real.nthFree(k), nthFreeOf(members, k); got != want {
			return fmt.Errorf("free address %s is %s, want %s", k, got, want)
		}
	}
	return nil
}

// randomSteps fill a set and thin it out in turn, here and there, in runs, and all in one place.
func randomSteps(rng *rand.Rand, n int) []setStep {
	steps := make([]setStep, n)
	for i := range steps {
		place := rng.Uint32()
		if i/(n/4)%2 == 1 {
			place %= 4000
		}
		goes := rng.IntN(4) < 1+i/(n/6)%3
		size := byte(1) << rng.IntN(6)
		steps[i] = setStep{size<<2 | byte(rng.IntN(2))<<1, byte(place >> 8), byte(place)}
		if goes {
			steps[i][0] |= 1
		}
	}
	return steps
}

func TestSetRandomSteps(t *testing.T) {
	for i, w := range worlds {
		for _, tc := range []struct{ steps, every int }{{150, 1}, {3000, 251}} {
			if err := runSet(w, randomSteps(seeded(uint64(i)), tc.steps), tc.every); err != nil {
				t.Errorf("%d steps from %s: %v", tc.steps, w.first, err)
			}
		}
	}
}

// FuzzSet makes steps of bytes: the first one chooses the world.
func FuzzSet(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{0, 0, 0, 0})                                                         // the network address
	f.Add([]byte{1, 0x3c, 0xff, 0xf0, 0, 0xff, 0xff})                                 // up to 255.255.255.255
	f.Add([]byte{6, 0, 0xff, 0xff, 1, 0xff, 0xff})                                    // the last address of IPv6
	f.Add([]byte{3, 0xfc, 0, 0, 0xfc, 0, 64, 0xfc, 0, 128, 0xfd, 0, 0, 0xff, 0, 190}) // leaves are split and joined
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) == 0 {
			return
		}
		var steps []setStep
		for piece := range slices.Chunk(data[1:min(len(data), 200)], 3) {
			steps = append(steps, setStep(append(piece, 0, 0)[:3]))
		}
		if err := runSet(worlds[int(data[0])%len(worlds)], steps, 1); err != nil {
			t.Fatal(err)
		}
	})
}

// TestSetShrinks fills hundreds of leaves and empties them in every order: leaves go as words go.
func TestSetShrinks(t *testing.T) {
	const n = 20_000
	orders := map[string]func(i int) int{
		"up": func(i int) int { return i }, "down": func(i int) int { return n - 1 - i }, "scattered": func(i int) int { return i * 7919 % n },
	}
	for fill, from := range orders {
		for empty, to := range orders {
			var s set
			for i := range n {
				s.insert(worlds[3].at(uint16(from(i))))
			}
			if len(s.leaves) > n/(leafWords/2)+1 {
				t.Fatalf("filled %s: %d leaves for %d words", fill, len(s.leaves), n)
			}
			for _, rest := range []bool{false, true} { // one in a hundred stays until last
				for i := range n {
					if at := to(i); rest || at%100 > 0 {
						s.delete(worlds[3].at(uint16(at)))
					}
					if most := int(s.n)/(leafWords/4) + 2; i%500 == 0 && len(s.leaves) > most {
						t.Fatalf("filled %s, emptied %s: %d leaves for %d words", fill, empty, len(s.leaves), s.n)
					}
				}
			}
			if err := s.check(); err != nil || s.n != 0 || len(s.leaves) != 1 || len(s.leaves[0]) > 0 {
				t.Errorf("filled %s, emptied %s: %d members in %d leaves remain, %v", fill, empty, s.n, len(s.leaves), err)
			}
		}
	}
}

// TestSetLarge compares 200,000 members, every third address, with arithmetic that needs no walk.
func TestSetLarge(t *testing.T) {
	const n = 200_000
	first := numberOf(addr("10.0.0.0"))
	var s set
	for _, i := range seeded(10).Perm(n) {
		s.insert(first.plus(3 * uint64(i)))
	}
	if err := s.check(); err != nil {
		t.Fatal(err)
	}
	for i := uint64(0); i < n; i += 97 {
		if got := s.rank(first.plus(3*i + 1)); got != i+1 {
			t.Fatalf("%d members up to member %d", got, i)
		}
		if got, want := s.nthFree(first.plus(2*i)), first.plus(3*i+1); got != want {
			t.Fatalf("free address %d is %s, want %s", 2*i, got, want)
		}
	}
}

func TestSetAllStops(t *testing.T) {
	var s set
	for i := range uint16(3000) {
		s.insert(worlds[3].at(i))
		s.insert(worlds[3].at(i).plus(1))
	}
	for _, enough := range []int{1, 2, 3, 2 * leafWords, 2*leafWords + 1, 5999} {
		seen := 0
		for range s.all(interval{uint128{}, ones(128)}) {
			if seen++; seen == enough {
				break
			}
		}
		if seen != enough {
			t.Errorf("saw %d members, want %d", seen, enough)
		}
	}
}
