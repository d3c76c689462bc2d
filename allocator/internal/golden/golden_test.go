package golden

import (
	"math/big"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var addr = netip.MustParseAddr

// span reads "first-last".
func span(s string) Span {
	first, last, _ := strings.Cut(s, "-")
	return Span{addr(first), addr(last)}
}

func rangeOf(s string) Range { return Range{netip.MustParsePrefix(s)} }

// words writes addresses as one line.
func words(list []netip.Addr) string {
	var b strings.Builder
	for i, a := range list {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(a.String())
	}
	return b.String()
}

func TestNumber(t *testing.T) {
	for text, want := range map[string]string{
		"0.0.0.0":         "0",
		"0.0.1.2":         "258",
		"255.255.255.255": "4294967295",
		"::":              "0",
		"::1:0":           "65536",
		"0:0:0:1::":       "18446744073709551616",
		"ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff": "340282366920938463463374607431768211455",
	} {
		a := addr(text)
		if got := Number(a); got.String() != want {
			t.Errorf("Number(%s) = %s, want %s", a, got, want)
		}
		n, _ := new(big.Int).SetString(want, 10)
		if got := Addr(n, a.Is4()); got != a {
			t.Errorf("Addr(%s) = %s, want %s", n, got, a)
		}
	}
}

func TestAddrRefusesWhatIsNone(t *testing.T) {
	for _, tc := range []struct {
		n   *big.Int
		is4 bool
	}{{big.NewInt(-1), true}, {big.NewInt(1 << 32), true}, {power(128), false}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("Addr(%s, %v) did not panic", tc.n, tc.is4)
				}
			}()
			Addr(tc.n, tc.is4)
		}()
	}
}

func TestSpan(t *testing.T) {
	for _, tc := range []struct{ span, size string }{
		{"10.0.0.1-10.0.0.1", "1"},
		{"10.0.0.1-10.0.1.0", "256"},
		{"0.0.0.0-255.255.255.255", "4294967296"},
		{"::-ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "340282366920938463463374607431768211456"},
		{"10.0.0.2-10.0.0.1", "0"},
		{"10.0.0.1-::1", "0"},
		{"fe80::1%eth0-fe80::2", "0"},
		{"fe80::1-fe80::2%eth0", "0"},
	} {
		if got := span(tc.span).Size().String(); got != tc.size {
			t.Errorf("%s has size %s, want %s", tc.span, got, tc.size)
		}
	}
	if !(Span{}).IsEmpty() {
		t.Error("the zero Span is not empty")
	}
	if got := words(span("10.0.0.254-10.0.1.1").Addrs()); got != "10.0.0.254 10.0.0.255 10.0.1.0 10.0.1.1" {
		t.Errorf("Addrs = %s", got)
	}
	if (Span{}).Addrs() != nil {
		t.Error("the zero Span has addresses")
	}
}

func TestSpanHas(t *testing.T) {
	s := span("10.0.0.1-10.0.0.3")
	for text, want := range map[string]bool{
		"10.0.0.0": false, "10.0.0.1": true, "10.0.0.2": true, "10.0.0.3": true, "10.0.0.4": false,
		"::a00:2": false, "::ffff:10.0.0.2": false,
	} {
		if got := s.Has(addr(text)); got != want {
			t.Errorf("Has(%s) = %v", text, got)
		}
	}
	if s.Has(netip.Addr{}) || span("fe80::1-fe80::3").Has(addr("fe80::2%eth0")) {
		t.Error("a span has something that is no address")
	}
}

func TestSpanOverlaps(t *testing.T) {
	for _, tc := range []struct {
		a, b string
		want bool
	}{
		{"10.0.0.1-10.0.0.3", "10.0.0.4-10.0.0.5", false},
		{"10.0.0.1-10.0.0.3", "10.0.0.3-10.0.0.5", true},
		{"10.0.0.1-10.0.0.9", "10.0.0.3-10.0.0.5", true},
		{"10.0.0.3-10.0.0.5", "10.0.0.3-10.0.0.5", true},
		{"10.0.0.1-10.0.0.3", "10.0.0.3-10.0.0.2", false},
		{"0.0.0.0-0.0.0.9", "::-::9", false},
	} {
		if got := span(tc.a).Overlaps(span(tc.b)); got != tc.want {
			t.Errorf("%s overlaps %s: %v", tc.a, tc.b, got)
		}
		if got := span(tc.b).Overlaps(span(tc.a)); got != tc.want {
			t.Errorf("%s overlaps %s: %v", tc.b, tc.a, got)
		}
	}
}

func TestRange(t *testing.T) {
	for _, tc := range []struct{ prefix, usable, static, dynamic string }{
		{"10.0.0.0/16", "10.0.0.1-10.0.255.254", "10.0.0.1-10.0.1.0", "10.0.1.1-10.0.255.254"},
		{"10.0.0.0/24", "10.0.0.1-10.0.0.254", "10.0.0.1-10.0.0.16", "10.0.0.17-10.0.0.254"},
		{"10.0.0.0/23", "10.0.0.1-10.0.1.254", "10.0.0.1-10.0.0.32", "10.0.0.33-10.0.1.254"},
		{"10.0.0.0/27", "10.0.0.1-10.0.0.30", "10.0.0.1-10.0.0.16", "10.0.0.17-10.0.0.30"},
		{"10.0.0.0/28", "10.0.0.1-10.0.0.14", "", "10.0.0.1-10.0.0.14"},
		{"10.0.0.0/30", "10.0.0.1-10.0.0.2", "", "10.0.0.1-10.0.0.2"},
		{"10.0.0.0/31", "", "", ""},
		{"10.0.0.0/32", "", "", ""},
		{"128.0.0.0/1", "128.0.0.1-255.255.255.254", "", "128.0.0.1-255.255.255.254"},
		{"fd00::/64", "fd00::1-fd00::ffff:ffff:ffff:ffff", "fd00::1-fd00::100", "fd00::101-fd00::ffff:ffff:ffff:ffff"},
		{"fd00::/123", "fd00::1-fd00::1f", "fd00::1-fd00::10", "fd00::11-fd00::1f"},
		{"fd00::/124", "fd00::1-fd00::f", "", "fd00::1-fd00::f"},
		{"fd00::/127", "fd00::1-fd00::1", "", "fd00::1-fd00::1"},
		{"fd00::/128", "", "", ""},
	} {
		r := rangeOf(tc.prefix)
		got := []Span{r.Usable(), r.Static(), r.Dynamic()}
		var want []Span
		for _, s := range []string{tc.usable, tc.static, tc.dynamic} {
			if s == "" {
				want = append(want, Span{})
				continue
			}
			want = append(want, span(s))
		}
		if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
			t.Errorf("%s: usable, static, dynamic (-want +got):\n%s", tc.prefix, diff)
		}
	}
}

func TestSet(t *testing.T) {
	s := Set{}
	for _, text := range []string{"10.0.0.7", "10.0.0.3", "10.0.0.4"} {
		if !s.Insert(addr(text)) {
			t.Errorf("%s is not new", text)
		}
	}
	if s.Insert(addr("10.0.0.4")) {
		t.Error("10.0.0.4 is new a second time")
	}
	all := span("10.0.0.2-10.0.0.8")
	if got := words(s.All(all)); got != "10.0.0.3 10.0.0.4 10.0.0.7" {
		t.Errorf("All = %s", got)
	}
	if got := s.CountIn(span("10.0.0.4-10.0.0.6")); got != 1 {
		t.Errorf("CountIn = %d, want 1", got)
	}
	for k, want := range []string{"10.0.0.2", "10.0.0.5", "10.0.0.6", "10.0.0.8"} {
		if got, ok := s.NthFree(all, uint64(k)); !ok || got != addr(want) {
			t.Errorf("NthFree(%d) = %s, %v, want %s", k, got, ok, want)
		}
	}
	if got, ok := s.NthFree(all, 4); ok {
		t.Errorf("NthFree(4) = %s, want none", got)
	}
	if _, ok := s.NthFree(Span{}, 0); ok {
		t.Error("the zero Span has a free address")
	}
	if !s.Delete(addr("10.0.0.3")) || s.Delete(addr("10.0.0.3")) {
		t.Error("10.0.0.3 was not there once")
	}
	if got := words(s.All(all)); got != "10.0.0.4 10.0.0.7" {
		t.Errorf("All = %s", got)
	}
}

func TestPoolStates(t *testing.T) {
	a := addr("10.0.0.1")
	steps := map[string]func(*Pool){
		"take":      func(p *Pool) { p.Take(a) },
		"forget":    func(p *Pool) { p.Forget(a) },
		"release":   func(p *Pool) { p.Release(a) },
		"allocated": func(p *Pool) { p.Observe(a, Allocated) },
		"reserved":  func(p *Pool) { p.Observe(a, Reserved) },
		"cooling":   func(p *Pool) { p.Cool(a, time.Time{}) },
		"assume":    func(p *Pool) { p.Assume(a) },
	}
	for path, want := range map[string]string{
		"":                  Free,
		"take":              Assumed,
		"take forget":       Free,
		"take release":      Assumed,
		"take reserved":     Reserved,
		"reserved forget":   Reserved,
		"cooling take":      Assumed,
		"cooling release":   Free,
		"allocated release": Free,
		"take cooling":      Assumed,
		"reserved cooling":  Cooling,
		"assume":            Assumed,
		"reserved assume":   Assumed,
		"cooling assume":    Assumed,
		"allocated assume":  Allocated,
	} {
		p := NewPool()
		for step := range strings.FieldsSeq(path) {
			steps[step](p)
		}
		if got := p.State(a); got != want {
			t.Errorf("after %q: %s, want %s", path, got, want)
		}
	}
}

func TestPoolCounts(t *testing.T) {
	p := NewPool()
	p.Observe(addr("10.0.0.1"), Allocated)
	p.Observe(addr("10.0.0.2"), Reserved)
	p.Cool(addr("10.0.0.4"), time.Time{})
	p.Take(addr("10.0.0.5"))
	p.Observe(addr("10.0.0.6"), Allocated)
	p.Release(addr("10.0.0.6"))
	s := span("10.0.0.1-10.0.0.7")
	if diff := cmp.Diff(Usage{Size: 7, Allocated: 2, Reserved: 1, Cooling: 1, Free: 3}, p.Usage(s.Addrs())); diff != "" {
		t.Errorf("usage (-want +got):\n%s", diff)
	}
	if got := words(p.Used(s, 3)); got != "10.0.0.1 10.0.0.2 10.0.0.4" {
		t.Errorf("Used = %s", got)
	}
}

func TestPoolEligible(t *testing.T) {
	first, second := NewTier([]Span{span("10.0.0.1-10.0.0.4"), span("10.0.0.3-10.0.0.6")}, []Span{span("10.0.0.4-10.0.0.5"), span("::-::ffff")}), NewTier([]Span{span("10.0.0.1-10.0.0.9")}, nil)
	for _, tc := range []struct {
		name           string
		used           string // the last octets of what is allocated
		cooling        string // the same of what cools, in order
		own            string // addresses
		onlyOwn, yield bool
		want           string
	}{
		{name: "each address of the first tier", want: "10.0.0.1 10.0.0.2 10.0.0.3 10.0.0.6"},
		{name: "next tier", used: "1 2 3 6", want: "10.0.0.4 10.0.0.5 10.0.0.7 10.0.0.8 10.0.0.9"},
		{name: "own ones first", own: "10.0.0.2 10.0.0.6 10.0.0.9", want: "10.0.0.2 10.0.0.6"},
		{name: "only own ones", own: "10.0.0.9", onlyOwn: true, want: "10.0.0.9"},
		{name: "the first tier before own ones", own: "10.0.0.9", want: "10.0.0.1 10.0.0.2 10.0.0.3 10.0.0.6"},
		{name: "full", used: "1 2 3 4 5 6 7 8 9"},
		{name: "cooling is kept", used: "1 2 3 4 5 6 7", cooling: "9 8"},
		{name: "cooling yields", used: "1 2 3 4 5 6 7", cooling: "100 9 8", yield: true, want: "10.0.0.9"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := NewPool()
			for octet := range strings.FieldsSeq(tc.used) {
				p.Observe(addr("10.0.0."+octet), Allocated)
			}
			for i, octet := range strings.Fields(tc.cooling) {
				p.Cool(addr("10.0.0."+octet), time.Unix(int64(i), 0))
			}
			owns := func(a netip.Addr) bool { return strings.Contains(tc.own+" ", a.String()+" ") }
			if diff := cmp.Diff(tc.want, words(p.Eligible(Lot{[]Tier{first, second}, owns, tc.onlyOwn, tc.yield}))); diff != "" {
				t.Errorf("eligible (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCoolingYieldsByTime(t *testing.T) {
	p := NewPool()
	for text, since := range map[string]int64{"10.0.0.3": 7, "10.0.0.2": 5, "10.0.0.1": 5, "10.0.0.9": 1} {
		p.Cool(addr(text), time.Unix(since, 0))
	}
	l := Lot{[]Tier{{addr("10.0.0.3")}, NewTier([]Span{span("10.0.0.1-10.0.0.3")}, nil)}, func(netip.Addr) bool { return true }, false, true}
	for _, want := range []string{"10.0.0.1", "10.0.0.2", "10.0.0.3", ""} {
		got := p.Eligible(l)
		if words(got) != want {
			t.Errorf("eligible %s, want %s", got, want)
		}
		for _, a := range got {
			p.Take(a)
		}
	}
}
