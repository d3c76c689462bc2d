package allocator

import (
	"math"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// windows are runs of 64 addresses in which spans can be enumerated: at the ends of both families,
// where the halves of a number meet, and where nothing is special.
var windows = spans("0.0.0.0-0.0.0.63 255.255.255.192-255.255.255.255 10.0.0.77-10.0.0.140 ::-::3f " +
	"ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffc0-ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff ::ffff:ffff:ffff:ffe0-::1:0:0:0:1f " +
	"::fffe:ffff:ffe0-::ffff:0.0.0.31 ::ffff:255.255.255.224-::1:0:0:1f fd00::5-fd00::44")

// randomSpan returns a span in the window: mostly a proper one, some reversed or half strange.
func randomSpan(rng *rand.Rand, window Span) Span {
	a, b := rng.Int64N(64), rng.Int64N(64)
	if rng.IntN(8) > 0 {
		a, b = min(a, b), max(a, b)
	}
	s := Span{shifted(window.First, a), shifted(window.First, b)}
	switch rng.IntN(24) {
	case 0:
		s.Last = netip.Addr{}
	case 1:
		s.First = s.First.WithZone("eth0")
	case 2:
		s.First = all4.First
	case 3:
		s.Last = all6.Last
	}
	return s
}

// has is the definition of a Span, asked about one address.
func has(list []Span, a netip.Addr) bool {
	return slices.ContainsFunc(list, func(s Span) bool {
		proper := s.First.IsValid() && s.First.BitLen() == s.Last.BitLen() && s.First.Zone() == "" && s.Last.Zone() == ""
		return proper && a.BitLen() == s.First.BitLen() && s.First.Compare(a) <= 0 && a.Compare(s.Last) <= 0
	})
}

// TestSpansAreWhatTheirAddressesAre asks every address of a window about spans and their remains.
func TestSpansAreWhatTheirAddressesAre(t *testing.T) {
	rng := seeded(2)
	for _, w := range windows {
		around := addrsOf(w)
		for range 150 {
			list, others := make([]Span, 1+rng.IntN(4)), make([]Span, rng.IntN(6))
			for i := range list {
				list[i] = randomSpan(rng, w)
			}
			for i := range others {
				others[i] = randomSpan(rng, w)
			}
			given := slices.Concat(list, others)
			s, rest := list[0], list[0].Subtract(others...)
			tier, err := NewTier(list, others)
			if !slices.Equal(given, slices.Concat(list, others)) {
				t.Fatalf("%s changed", given)
			}
			common, size, drawn := false, uint64(0), uint64(0)
			for _, a := range around {
				in, out := has(list[:1], a), has(others, a)
				if in {
					size++
				}
				common = common || in && has(list[len(list)-1:], a)
				if s.Contains(a) != in || has(rest, a) != (in && !out) {
					t.Fatalf("%s: Contains(%s) = %v; without %s it is %s", s, a, s.Contains(a), others, rest)
				}
				if free := has(list, a) && !out; err == nil && tier.Contains(a) != free {
					t.Fatalf("the tier of %s without %s has %s: %v", list, others, a, tier.Contains(a))
				} else if free {
					drawn++
				}
			}
			o := list[len(list)-1]
			if inside := w.Contains(s.First) && w.Contains(s.Last); inside && (s.Size() != size || s.IsEmpty() != (size == 0) || s.Overlaps(o) != common) {
				t.Fatalf("%s: size %d, want %d, overlaps %s: %v", s, s.Size(), size, o, s.Overlaps(o))
			}
			if err == nil && !has(list, w.First.Prev()) && !has(list, w.Last.Next()) && tier.Size() != drawn {
				t.Fatalf("the tier of %s without %s has %d addresses, want %d", list, others, tier.Size(), drawn)
			}
		}
	}
}

func TestSubtract(t *testing.T) {
	for name, tc := range map[string]struct{ s, others, want string }{
		"nothing": {"10.0.0.1-10.0.0.9", "", "10.0.0.1-10.0.0.9"}, "of nothing": {"empty", "10.0.0.1-10.0.0.9", ""},
		"the middle":               {"10.0.0.1-10.0.0.9", "10.0.0.4-10.0.0.5", "10.0.0.1-10.0.0.3 10.0.0.6-10.0.0.9"},
		"all of it":                {"10.0.0.1-10.0.0.9", "10.0.0.6-10.0.0.9 10.0.0.1-10.0.0.5", ""},
		"neighbours of it":         {"10.0.0.1-10.0.0.9", "10.0.0.0-10.0.0.0 10.0.0.10-10.0.0.11", "10.0.0.1-10.0.0.9"},
		"the other family":         {"10.0.0.1-10.0.0.9", "::-ffff::", "10.0.0.1-10.0.0.9"},
		"both ends of IPv4":        {all4.String(), "0.0.0.0-0.0.0.0 255.255.255.255-255.255.255.255", "0.0.0.1-255.255.255.254"},
		"all but the ends of IPv6": {all6.String(), "::1-" + shifted(all6.Last, -1).String(), "::-:: " + all6.Last.String() + "-" + all6.Last.String()},
	} {
		if diff := cmp.Diff(spans(tc.want), span(tc.s).Subtract(spans(tc.others)...), cmp.Comparer(func(a, b Span) bool { return a == b })); diff != "" {
			t.Errorf("%s: what remains (-want +got):\n%s", name, diff)
		}
	}
}

func TestLargeSpans(t *testing.T) {
	for text, want := range map[string]uint64{
		all4.String():                       1 << 32,
		"fd00::1-fd00::ffff:ffff:ffff:ffff": math.MaxUint64, // it fits exactly
		"fd00::-fd00::ffff:ffff:ffff:ffff":  math.MaxUint64, // one too many
		"fd00::-fd00:0:0:1::":               math.MaxUint64,
		all6.String():                       math.MaxUint64,
	} {
		if got := span(text).Size(); got != want {
			t.Errorf("%s: Size = %d, want %d", text, got, want)
		}
		if tier, err := NewTier(spans(text), spans("::-::")); err != nil || tier.Size() != want {
			t.Errorf("%s: the tier is %v, %v", text, tier, err)
		}
	}
	if all4.Overlaps(all6) || span("10.0.0.1-10.0.0.9").Overlaps(span("::ffff:10.0.0.1-::ffff:10.0.0.9")) || all4.Contains(addr("::ffff:10.0.0.1")) {
		t.Error("two families overlap")
	}
	for text, want := range map[string]string{
		"10.0.0.1-10.0.0.2 empty fd00::1-fd00::1": "making a tier: 10.0.0.1-10.0.0.2 and fd00::1-fd00::1 are of two families; make a tier for each",
		all6.String(): "making a tier: all of IPv6 is too much to draw from",
	} {
		if tier, err := NewTier(spans(text), nil); err == nil || err.Error() != want || tier != nil {
			t.Errorf("%s: got %v, %v, want %s", text, tier, err, want)
		}
	}
}
