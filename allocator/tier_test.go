package allocator_test

import (
	"math"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/clusterip-operator/clusterip-operator/allocator"
)

// spans reads "first-last first-last".
func spans(text string) []allocator.Span {
	var list []allocator.Span
	for s := range strings.FieldsSeq(text) {
		list = append(list, span(s))
	}
	return list
}

// tierOf returns the tier of some spans.
func tierOf(t testing.TB, list ...allocator.Span) *allocator.Tier {
	t.Helper()
	tier, err := allocator.NewTier(list, nil)
	if err != nil {
		t.Fatal(err)
	}
	return tier
}

func TestNewTier(t *testing.T) {
	for _, tc := range []struct {
		name, spans, exclude string
		want                 string
		size                 uint64
	}{
		{name: "nothing"},
		{name: "nothing without something", exclude: "10.0.0.1-10.0.0.2"},
		{name: "one address", spans: "10.0.0.1-10.0.0.1", want: "10.0.0.1-10.0.0.1", size: 1},
		{name: "out of order", spans: "10.0.1.0-10.0.1.9 10.0.0.0-10.0.0.9", want: "10.0.0.0-10.0.0.9 10.0.1.0-10.0.1.9", size: 20},
		{name: "overlaps count once", spans: "fd00::5-fd00::9 fd00::1-fd00::6 fd00::2-fd00::2", want: "fd00::1-fd00::9", size: 9},
		{name: "empty ones add nothing", spans: "empty 10.0.0.9-10.0.0.1 10.0.0.1-fd00::1 10.0.0.3-10.0.0.4", want: "10.0.0.3-10.0.0.4", size: 2},
		{
			name: "exclusions cut", spans: "10.0.0.0-10.0.0.9 10.0.0.20-10.0.0.29",
			exclude: "10.0.0.5-10.0.0.21 10.0.0.25-10.0.0.25 10.0.0.1-10.0.0.1 empty",
			want:    "10.0.0.0-10.0.0.0 10.0.0.2-10.0.0.4 10.0.0.22-10.0.0.24 10.0.0.26-10.0.0.29", size: 11,
		},
		{name: "exclusions of the other family", spans: "10.0.0.0-10.0.0.9", exclude: "::-" + all6.Last.String(), want: "10.0.0.0-10.0.0.9", size: 10},
		{name: "nothing is left", spans: "fd00::1-fd00::9", exclude: "fd00::-fd00::f"},
		{name: "all of IPv4", spans: "0.0.0.0-255.255.255.255", want: "0.0.0.0-255.255.255.255", size: 1 << 32},
		{name: "both ends of IPv6", spans: "::-::1 " + all6.Last.String() + "-" + all6.Last.String(), want: "::-::1 " + all6.Last.String() + "-" + all6.Last.String(), size: 3},
		{name: "nearly all of IPv6", spans: "::-" + all6.Last.String(), exclude: "::-::", want: "::1-" + all6.Last.String(), size: math.MaxUint64},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tier, err := allocator.NewTier(spans(tc.spans), spans(tc.exclude))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(spans(tc.want), tier.Spans(), byEquality); diff != "" {
				t.Errorf("addresses (-want +got):\n%s", diff)
			}
			if got := tier.Size(); got != tc.size {
				t.Errorf("size %d, want %d", got, tc.size)
			}
		})
	}
}

func TestNewTierRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"10.0.0.1-10.0.0.2 empty fd00::1-fd00::1": "making a tier: 10.0.0.1-10.0.0.2 and fd00::1-fd00::1 are of two families; make a tier for each",
		"::-" + all6.Last.String():                "making a tier: all of IPv6 is too much to draw from",
	} {
		tier, err := allocator.NewTier(spans(text), nil)
		if err == nil || err.Error() != want || tier != nil {
			t.Errorf("%s: got %v, %v, want %s", text, tier, err, want)
		}
	}
}

// TestTiersDoNotChange: neither what they were made of nor another tier made of it matters later.
func TestTiersDoNotChange(t *testing.T) {
	list, exclude := spans("10.0.0.9-10.0.0.9 10.0.0.1-10.0.0.4"), spans("10.0.0.3-10.0.0.3 10.0.0.2-10.0.0.2")
	tier, err := allocator.NewTier(list, exclude)
	if err != nil {
		t.Fatal(err)
	}
	if list[0] != span("10.0.0.9-10.0.0.9") || exclude[0] != span("10.0.0.3-10.0.0.3") {
		t.Errorf("what was given was changed: %s, %s", list, exclude)
	}
	clear(list)
	clear(exclude)
	for range 2 {
		if got := drain(t, allocator.NewPool(), allocator.Lot{Tiers: []*allocator.Tier{tier}}); len(got) != 3 {
			t.Errorf("drew %s, want three addresses", got)
		}
	}
}

func TestEmptyTiersArePassedOver(t *testing.T) {
	p := allocator.NewPool()
	lot := allocator.Lot{Tiers: []*allocator.Tier{nil, {}, tierOf(t), tierOf(t, span("fd00::1-fd00::1")), nil}}
	d, err := p.Draw(lot)
	if err != nil || d.Addr != addr("fd00::1") {
		t.Errorf("got %+v, %v, want fd00::1", d, err)
	}
	if nobody := (*allocator.Tier)(nil); nobody.Size() != 0 {
		t.Errorf("a nil tier has %d addresses", nobody.Size())
	}
}

// TestTiersInOrder: nothing comes from a tier as long as the ones before it have something.
func TestTiersInOrder(t *testing.T) {
	lot := allocator.Lot{Tiers: []*allocator.Tier{
		tierOf(t, span("10.0.0.0-10.0.0.19")), tierOf(t, span("10.0.0.10-10.0.0.29"), span("10.0.2.1-10.0.2.1")), tierOf(t, span("10.0.0.0-10.0.0.39")),
	}}
	got := drain(t, allocator.NewPool(), lot)
	for _, want := range [][]allocator.Span{spans("10.0.0.0-10.0.0.19"), spans("10.0.0.20-10.0.0.29 10.0.2.1-10.0.2.1"), spans("10.0.0.30-10.0.0.39")} {
		list := addrsOf(tierOf(t, want...))
		part := got[:min(len(list), len(got))]
		slices.SortFunc(part, netip.Addr.Compare)
		if !slices.Equal(part, list) {
			t.Errorf("drew %s, want %s in any order", part, list)
		}
		got = got[len(part):]
	}
	if len(got) > 0 {
		t.Errorf("drew %s as well", got)
	}
}

// TestEndsOfTheSpace draws and yields where addresses begin and end.
func TestEndsOfTheSpace(t *testing.T) {
	for _, list := range [][]allocator.Span{
		{{First: all4.First, Last: nth(all4.First, 2)}, {First: shifted(all4.Last, -2), Last: all4.Last}},
		{{First: all6.First, Last: shifted(all6.First, 2)}, {First: shifted(all6.Last, -2), Last: all6.Last}},
	} {
		p, lot := allocator.NewPool(), allocator.Lot{Tiers: []*allocator.Tier{tierOf(t, list...)}, Yield: true}
		want := addrsOf(lot.Tiers[0])
		for i, a := range want {
			p.Cool(a, at(-i))
		}
		slices.Reverse(want)
		if got := drain(t, p, lot); !slices.Equal(got, want) {
			t.Errorf("yielded %s, want %s", got, want)
		}
		for _, a := range want {
			p.Forget(a)
		}
		if got := drain(t, p, lot); len(got) != len(want) {
			t.Errorf("drew %s, want %d addresses", got, len(want))
		}
	}
}
