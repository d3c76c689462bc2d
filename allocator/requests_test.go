package allocator

import (
	"errors"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"
)

var (
	addr = netip.MustParseAddr

	all4 = Span{addr("0.0.0.0"), addr("255.255.255.255")}
	all6 = Span{addr("::"), addr("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff")}
)

// span reads "first-last"; "empty" and "" are the zero Span.
func span(s string) Span {
	first, last, ok := strings.Cut(s, "-")
	if !ok {
		return Span{}
	}
	return Span{addr(first), addr(last)}
}

// spans reads "first-last first-last".
func spans(text string) (list []Span) {
	for s := range strings.FieldsSeq(text) {
		list = append(list, span(s))
	}
	return list
}

// spans returns the runs of a tier.
func (t *Tier) spans() (list []Span) {
	for _, iv := range t.runs() {
		list = append(list, iv.span(t.family))
	}
	return list
}

// addrsOf returns every address of some spans, in order.
func addrsOf(list ...Span) (out []netip.Addr) {
	for _, s := range list {
		for a := s.First; s.Contains(a); a = a.Next() {
			out = append(out, a)
		}
	}
	return out
}

func rangeOf(t testing.TB, prefix string) Range {
	t.Helper()
	r, err := ParseRange(prefix)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// tierOf returns the tier of some spans.
func tierOf(t testing.TB, list ...Span) *Tier {
	t.Helper()
	tier, err := NewTier(list, nil)
	if err != nil {
		t.Fatal(err)
	}
	return tier
}

// requestOf returns two tiers: the addresses that are dynamic in all of the ranges, and the rest.
func requestOf(t testing.TB, prefixes ...string) Request {
	t.Helper()
	var all, static []Span
	for _, p := range prefixes {
		r := rangeOf(t, p)
		all, static = append(all, r.Span()), append(static, r.Band(Static))
	}
	dynamic, err := NewTier(all, static)
	if err != nil {
		t.Fatal(err)
	}
	rest, err := NewTier(all, dynamic.spans())
	if err != nil {
		t.Fatal(err)
	}
	return Request{Tiers: []*Tier{dynamic, rest}}
}

// yielding is a Request of some spans, where cooling addresses yield.
func yielding(t testing.TB, list ...Span) Request {
	t.Helper()
	return Request{Tiers: []*Tier{tierOf(t, list...)}, Yield: true}
}

// drain draws until nothing is left and returns what came, in order.
func drain(t testing.TB, p *Pool, r Request) (list []netip.Addr) {
	t.Helper()
	for {
		d, err := p.Draw(r)
		if errors.Is(err, ErrFull) {
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

func sorted(list []netip.Addr) []netip.Addr {
	list = slices.Clone(list)
	slices.SortFunc(list, netip.Addr.Compare)
	return list
}

// at returns a time: second n.
func at(n int) time.Time { return time.Unix(int64(n), 0) }

func seeded(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0)) }

// shifted returns a+n.
func shifted(a netip.Addr, n int64) netip.Addr {
	return numberOf(a).add(uint128{uint64(n >> 63), uint64(n)}).addr(FamilyOf(a))
}
