package allocator

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// randomIntervals returns up to six intervals between base and base+39.
func randomIntervals(rng *rand.Rand, base uint128) intervals {
	list := make(intervals, rng.IntN(7))
	for i := range list {
		a, b := rng.Uint64N(40), rng.Uint64N(40)
		list[i] = interval{base.plus(min(a, b)), base.plus(max(a, b))}
	}
	return list
}

func (list intervals) has(a uint128) bool {
	return slices.ContainsFunc(list, func(iv interval) bool { return !a.less(iv.first) && !iv.last.less(a) })
}

// sorted reports whether the list is sorted and its members are disjoint.
func (list intervals) sorted() bool {
	for i := range list {
		if list[i].last.less(list[i].first) || i > 0 && !list[i-1].last.less(list[i].first) {
			return false
		}
	}
	return true
}

// bases are where intervals are tried: both ends of the space, the end of its lower half, and IPv4.
var bases = []uint128{{0, 0}, ones(128).minus(39), {0, ^uint64(0) - 20}, {0, 0xffff_0a00_0000}}

func TestNormalize(t *testing.T) {
	rng := rand.New(rand.NewPCG(20, 0))
	for _, base := range bases {
		for range 500 {
			given := randomIntervals(rng, base)
			got := slices.Clone(given).normalize()
			if !got.sorted() {
				t.Fatalf("%v becomes %v, which is not normal", given, got)
			}
			for i := range uint64(40) {
				if a := base.plus(i); got.has(a) != given.has(a) {
					t.Fatalf("%v becomes %v: it has %s: %v", given, got, a, got.has(a))
				}
			}
			if again := slices.Clone(got).normalize(); !slices.Equal(again, got) {
				t.Fatalf("%v is normal, but becomes %v", got, again)
			}
		}
	}
}

func TestCutFrom(t *testing.T) {
	rng := rand.New(rand.NewPCG(21, 0))
	for _, base := range bases {
		for range 500 {
			holes := randomIntervals(rng, base).normalize()
			whole := intervals{{base.plus(5), base.plus(5 + rng.Uint64N(30))}}
			before := interval{base, base}
			got := holes.cutFrom(whole[0], intervals{before})
			if got[0] != before {
				t.Fatalf("what was there already became %v", got[0])
			}
			if got = got[1:]; !got.sorted() {
				t.Fatalf("%v without %v is %v, which is not normal", whole, holes, got)
			}
			for i := range uint64(40) {
				a := base.plus(i)
				if want := whole.has(a) && !holes.has(a); got.has(a) != want {
					t.Fatalf("%v without %v is %v: it has %s: %v", whole, holes, got, a, got.has(a))
				}
			}
		}
	}
}

// TestNearAndCovers asks about every address.
func TestNearAndCovers(t *testing.T) {
	rng := rand.New(rand.NewPCG(22, 0))
	for _, base := range bases {
		for range 500 {
			list := randomIntervals(rng, base).normalize()
			around := interval{base.plus(5), base.plus(5 + rng.Uint64N(30))}
			var want intervals
			for _, iv := range list {
				if iv.overlaps(around) {
					want = append(want, iv)
				}
				covers := true
				for i := range uint64(40) {
					a := base.plus(i)
					covers = covers && (!intervals{around}.has(a) || intervals{iv}.has(a))
				}
				if iv.covers(around) != covers {
					t.Fatalf("%v covers %v: %v", iv, around, iv.covers(around))
				}
			}
			if got := list.near(around); !slices.Equal(got, want) {
				t.Fatalf("near %v of %v: %v, want %v", around, list, got, want)
			}
		}
	}
}

func TestOverlaps(t *testing.T) {
	at := func(first, last uint64) interval { return interval{uint128{0, first}, uint128{0, last}} }
	for _, tc := range []struct {
		a, b interval
		want bool
	}{
		{at(1, 3), at(4, 5), false},
		{at(1, 3), at(3, 5), true},
		{at(1, 9), at(4, 5), true},
		{at(4, 4), at(4, 4), true},
		{interval{uint128{0, 1}, uint128{1, 1}}, interval{uint128{1, 0}, uint128{1, 0}}, true},
		{interval{uint128{0, 1}, uint128{1, 1}}, interval{uint128{1, 2}, uint128{2, 0}}, false},
	} {
		for name, got := range map[string]bool{"a, b": tc.a.overlaps(tc.b), "b, a": tc.b.overlaps(tc.a)} {
			if got != tc.want {
				t.Errorf("%s of %s: %v", name, fmt.Sprint(tc.a, tc.b), got)
			}
		}
	}
}
