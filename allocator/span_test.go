package allocator_test

import (
	"math"
	"math/big"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/allocator/internal/golden"
)

// windows are runs of 64 addresses in which spans are small enough to be enumerated: at the ends of both families,
// where the halves of a number meet, and where nothing is special.
var windows = []allocator.Span{
	span("0.0.0.0-0.0.0.63"),
	span("255.255.255.192-255.255.255.255"),
	span("127.255.255.224-128.0.0.31"),
	span("10.0.0.77-10.0.0.140"),
	span("::-::3f"),
	span("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffc0-ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
	span("::ffff:ffff:ffff:ffe0-::1:0:0:0:1f"),
	span("::fffe:ffff:ffe0-::ffff:0.0.0.31"),
	span("::ffff:255.255.255.224-::1:0:0:1f"),
	span("fd00::5-fd00::44"),
}

// randomSpan returns a span in the window: mostly a proper one, sometimes the other way round or half strange.
func randomSpan(rng *rand.Rand, window allocator.Span) allocator.Span {
	a, b := rng.Int64N(64), rng.Int64N(64)
	if rng.IntN(8) > 0 {
		a, b = min(a, b), max(a, b)
	}
	s := allocator.Span{First: shifted(window.First, a), Last: shifted(window.First, b)}
	switch rng.IntN(24) {
	case 0:
		s.Last = netip.Addr{}
	case 1:
		s.First = s.First.WithZone("eth0")
	case 2:
		s.Last = s.Last.WithZone("eth0")
	case 3:
		s.First = all4.First
	case 4:
		s.Last = all6.Last
	}
	return s
}

func TestSpanIsWhatItsAddressesAre(t *testing.T) {
	rng := seeded(2)
	for _, w := range windows {
		around := golden.Span(w).Addrs()
		for range 60 {
			s := randomSpan(rng, w)
			want := golden.Span(s)
			if got := s.IsEmpty(); got != want.IsEmpty() {
				t.Fatalf("%v: IsEmpty = %v", s, got)
			}
			if got := new(big.Int).SetUint64(s.Size()); want.Size().IsUint64() && got.Cmp(want.Size()) != 0 {
				t.Fatalf("%s: Size = %s, want %s", s, got, want.Size())
			}
			for _, a := range around {
				if got := s.Contains(a); got != want.Has(a) {
					t.Fatalf("%s: Contains(%s) = %v", s, a, got)
				}
			}
		}
	}
}

func TestSpanOverlaps(t *testing.T) {
	rng := seeded(3)
	for _, w := range windows {
		for range 300 {
			s, o := randomSpan(rng, w), randomSpan(rng, w)
			if got := s.Overlaps(o); got != golden.Span(s).Overlaps(golden.Span(o)) {
				t.Fatalf("%s overlaps %s: %v", s, o, got)
			}
		}
	}
	for _, s := range []allocator.Span{all4, all6} {
		if !s.Overlaps(s) || s.Overlaps(allocator.Span{}) || (allocator.Span{}).Overlaps(s) {
			t.Errorf("%s: a whole family overlaps itself and not nothing", s)
		}
	}
	if all4.Overlaps(all6) || span("10.0.0.1-10.0.0.9").Overlaps(span("::ffff:10.0.0.1-::ffff:10.0.0.9")) {
		t.Error("two families overlap")
	}
}

// TestSpanSubtract asks every address of a window whether it remains.
func TestSpanSubtract(t *testing.T) {
	rng := seeded(4)
	for _, w := range windows {
		for range 120 {
			s := w
			if rng.IntN(2) == 0 {
				s = randomSpan(rng, w)
			}
			others := make([]allocator.Span, rng.IntN(6))
			for i := range others {
				others[i] = randomSpan(rng, w)
			}
			checkSubtract(t, w, s, others)
		}
	}
}

func checkSubtract(t *testing.T, w, s allocator.Span, others []allocator.Span) {
	t.Helper()
	given := slices.Clone(others)
	rest := s.Subtract(others...)
	if !slices.Equal(given, others) {
		t.Fatalf("Subtract changed its arguments from %v to %v", given, others)
	}
	for i, r := range rest {
		if r.IsEmpty() || i > 0 && !rest[i-1].Last.Less(r.First) {
			t.Fatalf("%s without %s is %s: empty or out of order", s, others, rest)
		}
	}
	for _, a := range golden.Span(w).Addrs() {
		has := func(o allocator.Span) bool { return golden.Span(o).Has(a) }
		want := has(s) && !slices.ContainsFunc(others, has)
		if got := slices.ContainsFunc(rest, has); got != want {
			t.Fatalf("%s without %s is %s: it has %s: %v", s, others, rest, a, got)
		}
	}
}

func TestSpanSubtractLiterals(t *testing.T) {
	for _, tc := range []struct {
		name   string
		s      string
		others []string
		want   []string
	}{
		{"nothing", "10.0.0.1-10.0.0.9", nil, []string{"10.0.0.1-10.0.0.9"}},
		{"the middle", "10.0.0.1-10.0.0.9", []string{"10.0.0.4-10.0.0.5"}, []string{"10.0.0.1-10.0.0.3", "10.0.0.6-10.0.0.9"}},
		{"the start", "10.0.0.1-10.0.0.9", []string{"10.0.0.0-10.0.0.1"}, []string{"10.0.0.2-10.0.0.9"}},
		{"the end", "10.0.0.1-10.0.0.9", []string{"10.0.0.9-10.0.0.12"}, []string{"10.0.0.1-10.0.0.8"}},
		{"all of it", "10.0.0.1-10.0.0.9", []string{"10.0.0.6-10.0.0.9", "10.0.0.1-10.0.0.5"}, nil},
		{"neighbours of it", "10.0.0.1-10.0.0.9", []string{"10.0.0.0-10.0.0.0", "10.0.0.10-10.0.0.11"}, []string{"10.0.0.1-10.0.0.9"}},
		{"the other family", "10.0.0.1-10.0.0.9", []string{"::-ffff::"}, []string{"10.0.0.1-10.0.0.9"}},
		{"one inside another", "10.0.0.1-10.0.0.9", []string{"10.0.0.3-10.0.0.8", "10.0.0.4-10.0.0.5"}, []string{"10.0.0.1-10.0.0.2", "10.0.0.9-10.0.0.9"}},
		{"of nothing", "empty", []string{"10.0.0.1-10.0.0.9"}, nil},
		{
			"both ends of IPv4", "0.0.0.0-255.255.255.255",
			[]string{"0.0.0.0-0.0.0.0", "255.255.255.255-255.255.255.255"},
			[]string{"0.0.0.1-255.255.255.254"},
		},
		{
			"all but the ends of IPv6", "::-ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
			[]string{"::1-ffff:ffff:ffff:ffff:ffff:ffff:ffff:fffe"},
			[]string{"::-::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff-ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var others []allocator.Span
			for _, o := range tc.others {
				others = append(others, span(o))
			}
			var got []string
			for _, r := range span(tc.s).Subtract(others...) {
				got = append(got, r.String())
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("what remains (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSpanSizeSaturates(t *testing.T) {
	for _, tc := range []struct {
		s    string
		want uint64
	}{
		{"0.0.0.0-255.255.255.255", 1 << 32},
		{"255.255.255.255-255.255.255.255", 1},
		{"::-::", 1},
		{"ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff-ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", 1},
		{"fd00::1-fd00::ffff:ffff:ffff:fffe", math.MaxUint64 - 1},
		{"fd00::1-fd00::ffff:ffff:ffff:ffff", math.MaxUint64}, // it fits exactly
		{"fd00::-fd00::ffff:ffff:ffff:ffff", math.MaxUint64},  // one too many
		{"fd00::-fd00:0:0:1::", math.MaxUint64},
		{"::-ffff:ffff:ffff:ffff:ffff:ffff:ffff:fffe", math.MaxUint64},
		{"::1-ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", math.MaxUint64},
		{"::-ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", math.MaxUint64},
	} {
		if got := span(tc.s).Size(); got != tc.want {
			t.Errorf("%s: Size = %d, want %d", tc.s, got, tc.want)
		}
	}
}

func TestEmptySpans(t *testing.T) {
	for _, s := range []allocator.Span{
		{},
		{First: addr("10.0.0.1")},
		{Last: addr("10.0.0.1")},
		span("10.0.0.2-10.0.0.1"),
		span("10.0.0.1-::ffff:10.0.0.2"),
		span("10.0.0.1-fd00::1"),
		span("fe80::1%a-fe80::2%a"),
		span("::ffff:10.0.0.1%a-::ffff:10.0.0.2%a"),
	} {
		if !s.IsEmpty() || s.Size() != 0 || s.Contains(s.First) || s.Overlaps(s) || s.Overlaps(all6) || s.String() != "empty" {
			t.Errorf("%v is not empty: size %d, %s", s, s.Size(), s)
		}
		if got := s.Subtract(); got != nil {
			t.Errorf("%v without nothing is %s", s, got)
		}
	}
}

func TestSpanContainsNoStrangers(t *testing.T) {
	for _, a := range []netip.Addr{{}, addr("::ffff:10.0.0.1"), addr("::"), addr("fe80::1%eth0")} {
		if all4.Contains(a) {
			t.Errorf("IPv4 contains %s", a)
		}
	}
	for _, a := range []netip.Addr{{}, addr("10.0.0.1"), addr("fe80::1%eth0"), addr("::ffff:10.0.0.1%eth0")} {
		if all6.Contains(a) {
			t.Errorf("IPv6 contains %s", a)
		}
	}
	if !all6.Contains(addr("::ffff:10.0.0.1")) {
		t.Error("IPv6 does not contain an IPv4-mapped address")
	}
}

func TestSpanString(t *testing.T) {
	if got := span("fd00::1-fd00::ff").String(); got != "fd00::1-fd00::ff" {
		t.Errorf("String = %q", got)
	}
}
