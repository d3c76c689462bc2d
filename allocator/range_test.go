package allocator

import (
	"net/netip"
	"strings"
	"testing"
)

func TestParseRange(t *testing.T) {
	for input, want := range map[string]string{
		"10.96.0.0/16": "10.96.0.0/16", "10.96.77.1/16": "10.96.0.0/16", "0.0.0.0/1": "0.0.0.0/1", "255.255.255.255/32": "255.255.255.255/32",
		"FD00:0:0:0::FFFF/112": "fd00::/112", "::/64": "::/64", "::a00:1/120": "::a00:0/120",
	} {
		r, err := ParseRange(input)
		if err != nil || r.String() != want || r.Prefix() != netip.MustParsePrefix(want) || r != rangeOf(t, want) {
			t.Errorf("ParseRange(%q) = %s, %v, want %s", input, r, err, want)
		}
	}
	r, err := NewRange(netip.PrefixFrom(addr("fe80::5%eth0"), 64)) // a prefix never keeps a zone
	if err != nil || r.String() != "fe80::/64" {
		t.Errorf("NewRange = %s, %v", r, err)
	}
}

// TestParseRangeRefuses also takes the prefixes that errors recommend: they must be accepted.
func TestParseRangeRefuses(t *testing.T) {
	for input, reason := range map[string]string{
		"":                        noPrefix,
		"10.96.0.0":               noPrefix,
		"10.96.0.0/33":            noPrefix,
		"fd00::/129":              noPrefix,
		"10.96.0.0/08":            noPrefix,
		"010.96.0.0/16":           noPrefix,
		"10.96.0.0/16,fd00::/112": noPrefix,
		"fe80::%eth0/64":          noPrefix,
		"0.0.0.0/0":               "it is the whole of IPv4; choose a part of it, for example 10.96.0.0/16",
		"::/0":                    "it is too large; choose a /64 or smaller inside it, for example ::/64",
		"fd00:10:96::/63":         "it is too large; choose a /64 or smaller inside it, for example fd00:10:96::/64",
		"fd00:10:96:3::1/48":      "it is too large; choose a /64 or smaller inside it, for example fd00:10:96::/64",
		"::ffff:10.96.0.5/112":    "it is an IPv4-mapped IPv6 prefix; write 10.96.0.0/16",
		"::ffff:10.96.0.0/80":     "it is an IPv4-mapped IPv6 prefix; write an IPv4 prefix or an IPv6 prefix outside ::ffff:0:0/96",
	} {
		r, err := ParseRange(input)
		if err == nil || !strings.HasSuffix(err.Error(), "cannot be a Service range: "+reason) || r != (Range{}) {
			t.Errorf("ParseRange(%q) = %s, %v, want %q", input, r, err, reason)
		}
		for word := range strings.FieldsSeq(reason) {
			if p, err := netip.ParsePrefix(strings.Trim(word, ",;")); err == nil && p.String() != "::ffff:0.0.0.0/96" {
				if _, err := NewRange(p); err != nil {
					t.Errorf("%q: the advice %s is refused: %v", input, p, err)
				}
			}
		}
	}
	for _, p := range []netip.Prefix{{}, netip.PrefixFrom(addr("10.0.0.0"), -1), netip.PrefixFrom(addr("10.0.0.0"), 33), netip.PrefixFrom(addr("fd00::"), 63)} {
		if r, err := NewRange(p); err == nil {
			t.Errorf("NewRange(%s) = %s", p, r)
		}
	}
}

// TestBands: the numbers were computed from the definition by another program in another language.
func TestBands(t *testing.T) {
	const ends = "ffff:ffff:ffff:ffff"
	const end = ends + ":ffff:ffff:ffff:"
	for _, tc := range []struct {
		prefix          string
		size            uint64
		static, dynamic string
	}{
		{"0.0.0.0/1", 1<<31 - 2, "empty", "0.0.0.1-127.255.255.254"}, // the API server takes its size for 0
		{"0.0.0.0/2", 1<<30 - 2, "0.0.0.1-0.0.1.0", "0.0.1.1-63.255.255.254"},
		{"10.96.0.0/12", 1<<20 - 2, "10.96.0.1-10.96.1.0", "10.96.1.1-10.111.255.254"},
		{"10.96.0.0/20", 4094, "10.96.0.1-10.96.1.0", "10.96.1.1-10.96.15.254"},
		{"10.96.0.0/21", 2046, "10.96.0.1-10.96.0.128", "10.96.0.129-10.96.7.254"},
		{"10.96.0.0/23", 510, "10.96.0.1-10.96.0.32", "10.96.0.33-10.96.1.254"},
		{"10.96.0.0/24", 254, "10.96.0.1-10.96.0.16", "10.96.0.17-10.96.0.254"},
		{"255.255.255.224/27", 30, "255.255.255.225-255.255.255.240", "255.255.255.241-255.255.255.254"},
		{"255.255.255.240/28", 14, "empty", "255.255.255.241-255.255.255.254"},
		{"10.96.0.4/30", 2, "empty", "10.96.0.5-10.96.0.6"},
		{"10.96.0.0/31", 0, "empty", "empty"},
		{"10.96.0.0/32", 0, "empty", "empty"},
		{"fd00::/64", 1<<64 - 1, "fd00::1-fd00::100", "fd00::101-fd00::" + ends},
		{"fd00::/65", 1<<63 - 1, "fd00::1-fd00::100", "fd00::101-fd00::7fff:ffff:ffff:ffff"},
		{"fd00::/112", 65535, "fd00::1-fd00::100", "fd00::101-fd00::ffff"},
		{"fd00::/116", 4095, "fd00::1-fd00::100", "fd00::101-fd00::fff"},
		{"fd00::/117", 2047, "fd00::1-fd00::80", "fd00::81-fd00::7ff"},
		{"::/120", 255, "::1-::10", "::11-::ff"},
		{end + "ffe0/123", 31, end + "ffe1-" + end + "fff0", end + "fff1-" + end + "ffff"},
		{"fd00::/124", 15, "empty", "fd00::1-fd00::f"},
		{"fd00::2/127", 1, "empty", "fd00::3-fd00::3"},
		{"fd00::/128", 0, "empty", "empty"},
	} {
		r := rangeOf(t, tc.prefix)
		static, dynamic := r.Band(Static), r.Band(Dynamic)
		if static.String() != tc.static || dynamic.String() != tc.dynamic || r.Size() != tc.size || static.Size()+dynamic.Size() != tc.size {
			t.Errorf("%s: %d addresses, static %s, dynamic %s, want %d, %s and %s", r, r.Size(), static, dynamic, tc.size, tc.static, tc.dynamic)
		}
		if usable := r.Span(); r.Size() > 0 && (usable.Last != dynamic.Last || usable.First != r.Prefix().Addr().Next()) {
			t.Errorf("%s: usable are %s", r, usable)
		}
	}
}

// TestBandOf asks about every address of small ranges, and about their neighbours on both sides.
func TestBandOf(t *testing.T) {
	for _, prefix := range []string{
		"10.0.0.0/22", "10.0.0.32/27", "10.0.0.16/28", "10.0.0.8/31", "10.0.0.9/32", "fd00::10:0/118", "fd00::10:0/123", "fd00::12/127", "fd00::17/128",
	} {
		r := rangeOf(t, prefix)
		for _, a := range addrsOf(Span{shifted(r.Prefix().Addr(), -3), shifted(r.Prefix().Addr(), 1030)}) {
			band, ok := r.BandOf(a)
			if ok != r.Span().Contains(a) || r.Contains(a) != ok || (band == Static) != r.Band(Static).Contains(a) {
				t.Errorf("%s: %s is %s, usable: %v", r, a, band, ok)
			}
		}
	}
	four, six := rangeOf(t, "10.0.0.0/24"), rangeOf(t, "fe80::/64")
	for a, r := range map[string]Range{"::ffff:10.0.0.20": four, "::a00:14": four, "fe80::1%eth0": six, "10.0.0.20": six, "0.0.0.1": {}, "::1": {}} {
		if band, ok := r.BandOf(addr(a)); ok || band != Dynamic {
			t.Errorf("%s is %s in %s", a, band, r)
		}
	}
}

func TestBandsAndStatesHaveNames(t *testing.T) {
	for value, want := range map[interface{ String() string }]string{
		Dynamic: "dynamic", Static: "static", Band(7): "Band(7)", Free: "free", Assumed: "assumed", Allocated: "allocated", Reserved: "reserved",
		Cooling: "cooling", State(5): "State(5)", Range{}: "invalid Prefix", span("fd00::1-fd00::ff"): "fd00::1-fd00::ff",
	} {
		if got := value.String(); got != want {
			t.Errorf("%#v is %q, want %q", value, got, want)
		}
	}
	if b, zero := rangeOf(t, "10.0.0.0/24").Band(7), (Range{}).Band(Dynamic); !b.IsEmpty() || !zero.IsEmpty() || (Range{}).Size() != 0 {
		t.Errorf("a band that does not exist has %s, the zero Range %s", b, zero)
	}
}

// FuzzParseRange: nothing panics; what is accepted reads as written; a refusal says what to do.
func FuzzParseRange(f *testing.F) {
	for _, text := range []string{
		"10.96.0.0/16", "fd00:10:96::/112", "", "0.0.0.0/0", "255.255.255.254/31", "::/63", all6.Last.String() + "/128",
		"::ffff:10.96.0.0/112", "::ffff:0:0/95", "::10.96.0.0/112", "fe80::%eth0/64", "10.96.0.0/016", "10.96/16", "10.96.0.0/16\x00", "1:2:3:4:5:6:7:8/９",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r, err := ParseRange(text)
		if err != nil {
			if r != (Range{}) || !strings.Contains(err.Error(), "write ") && !strings.Contains(err.Error(), "choose ") {
				t.Fatalf("%q: %s, %v", text, r, err)
			}
			return
		}
		if p, err := netip.ParsePrefix(text); err != nil || p.Masked() != r.Prefix() || rangeOf(t, r.String()) != r {
			t.Fatalf("%q is the prefix %s, %v, not %s", text, p, err, r.Prefix())
		}
		if all := r.Span(); !all.IsEmpty() && (!r.Prefix().Contains(all.First) || !r.Prefix().Contains(all.Last)) {
			t.Fatalf("%q has the addresses %s", text, all)
		}
	})
}
