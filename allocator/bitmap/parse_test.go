package bitmap_test

import (
	"bytes"
	"errors"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/clusterip-operator/clusterip-operator/allocator/bitmap"
)

func TestParseSpellings(t *testing.T) {
	for spec, want := range map[string]string{
		"10.96.0.0/16":           "10.96.0.0/16",
		"10.096.0.0/16":          "10.96.0.0/16",
		"010.096.000.000/016":    "10.96.0.0/16",
		"010.010.0.0/16":         "10.10.0.0/16", // 8.8.0.0 would be octal
		"10.96.00.0/0020":        "10.96.0.0/20",
		"fd00:10:96::/112":       "fd00:10:96::/112",
		"FD00:0010:0096:0::/112": "fd00:10:96::/112",
		"fd00:10:96::/0112":      "fd00:10:96::/112",
		"::010.096.000.000/112":  "::a60:0/112", // IPv6 that ends like IPv4, and is no IPv4
	} {
		b := parse(t, spec, []byte{2, 1})
		if b.String() != want || b.Prefix() != netip.MustParsePrefix(want) || b.Len() != 2 {
			t.Errorf("%q is read as %s with %d addresses, want %s", spec, b, b.Len(), want)
		}
	}
}

func TestParseStripsZeroBytes(t *testing.T) {
	for _, spec := range []string{"10.0.0.0/28", "10.0.0.0/16", "fd00::/112"} {
		for _, n := range []int{1, 6, 7, 8, 100, 10000} {
			b := parse(t, spec, append(make([]byte, n), 2, 1))
			if got := b.Data(); b.Len() != 2 || !bytes.Equal(got, []byte{2, 1}) {
				t.Errorf("%s, %d zero bytes: %d addresses, %x", spec, n, b.Len(), got)
			}
			if b = parse(t, spec, make([]byte, n)); b.Len() != 0 || len(b.Data()) != 0 {
				t.Errorf("%s, nothing but %d zero bytes: %d addresses", spec, n, b.Len())
			}
		}
	}
	if b := parse(t, "10.0.0.0/32", make([]byte, 9)); b.Len() != 0 {
		t.Errorf("%d addresses where there are none", b.Len())
	}
}

const noPrefix = "it is not an IP prefix; write it as 10.96.0.0/16 or fd00:10:96::/112"

func TestParseRefusesSpec(t *testing.T) {
	for _, tc := range []struct {
		name, spec string
		data       []byte
		reason     string
	}{
		{"garbage", "ten dot zero", nil, noPrefix},
		{"no length", "10.96.0.0", nil, noPrefix},
		{"empty length", "10.96.0.0/", nil, noPrefix},
		{"no address", "/16", nil, noPrefix},
		{"only a slash", "/", nil, noPrefix},
		{"length out of reach", "10.96.0.0/33", nil, noPrefix},
		{"length out of reach, IPv6", "fd00::/129", nil, noPrefix},
		{"negative length", "10.96.0.0/-16", nil, noPrefix},
		{"signed length", "10.96.0.0/+16", nil, noPrefix},
		{"an octet too large", "10.0256.0.0/16", nil, noPrefix},
		{"a number of three octets", "10.96.0/16", nil, noPrefix},
		{"a number of five octets", "10.96.0.0.0/16", nil, noPrefix},
		{"hexadecimal", "0x0a.96.0.0/16", nil, noPrefix},
		{"blank in front", " 10.96.0.0/16", nil, noPrefix},
		{"two ranges", "10.96.0.0/16,fd00::/112", nil, noPrefix},
		{"zone", "fe80::%eth0/112", nil, noPrefix},
		{"a span of addresses", "10.96.0.0-10.96.0.255", nil, noPrefix},
		{"one port", "30000", nil, noPrefix},
		{"a port too large", "30000-65536", nil, noPrefix},
		{"ports the wrong way round", "32767-30000", nil, noPrefix},
		{"negative port", "-1-30000", nil, noPrefix},
		{"half a range of ports", "30000-", nil, noPrefix},
		{"host bits", "10.96.7.0/16", nil, "it has host bits set, which no API server writes; if the range is meant, write 10.96.0.0/16"},
		{"host bits after leading zeros", "10.096.0.1/16", nil, "it has host bits set, which no API server writes; if the range is meant, write 10.96.0.0/16"},
		{"host bits, IPv6", "fd00:10:96::1/112", nil, "it has host bits set, which no API server writes; if the range is meant, write fd00:10:96::/112"},
		{"too large", "10.0.0.0/11", nil, "it is larger than any range of an API server; choose a /12 or smaller, for example 10.0.0.0/12"},
		{"all of IPv4", "0.0.0.0/0", nil, "it is larger than any range of an API server; choose a /12 or smaller, for example 0.0.0.0/12"},
		{"too large, IPv6", "fd00:10:96::/107", nil, "it is larger than any range of an API server; choose a /108 or smaller, for example fd00:10:96::/108"},
		{"too large, spelled otherwise", "10.000.0.0/011", nil, "it is larger than any range of an API server; choose a /12 or smaller, for example 10.0.0.0/12"},
		{"usual for IPv6 elsewhere", "fd00:10:96::/64", nil, "it is larger than any range of an API server; choose a /108 or smaller, for example fd00:10:96::/108"},
		{"IPv4-mapped", "::ffff:10.96.0.0/112", nil, "it is an IPv4-mapped IPv6 prefix; write 10.96.0.0/16"},
		{"no range, but bits", "", []byte{0, 2, 1}, "there is no range, although addresses are in use; restore it from a backup, or rebuild the bitmap from the Services"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b, err := bitmap.Parse(tc.spec, tc.data)
			var refused *bitmap.SpecError
			if !errors.As(err, &refused) || b != nil {
				t.Fatalf("Parse(%q) = %v, %v, want a *SpecError", tc.spec, b, err)
			}
			if diff := cmp.Diff(bitmap.SpecError{Spec: tc.spec, Reason: tc.reason}, *refused); diff != "" {
				t.Errorf("refused (-want +got):\n%s", diff)
			}
			if errors.Is(err, bitmap.ErrUnset) || errors.Is(err, bitmap.ErrNodePorts) {
				t.Errorf("%v is something else as well", err)
			}
		})
	}
}

func TestNew(t *testing.T) {
	for _, tc := range []struct {
		name   string
		prefix netip.Prefix
		want   string // the range
		reason string // or why there is none
	}{
		{"usual", netip.MustParsePrefix("10.96.0.0/16"), "10.96.0.0/16", ""},
		{"host bits", netip.MustParsePrefix("10.96.3.4/16"), "10.96.0.0/16", ""},
		{"host bits, IPv6", netip.MustParsePrefix("fd00::7/112"), "fd00::/112", ""},
		{"the largest", netip.MustParsePrefix("10.96.0.0/12"), "10.96.0.0/12", ""},
		{"the largest, IPv6", netip.MustParsePrefix("fd00::/108"), "fd00::/108", ""},
		{"invalid", netip.Prefix{}, "invalid Prefix", noPrefix},
		{"too large", netip.MustParsePrefix("10.99.3.4/11"), "10.99.3.4/11", "it is larger than any range of an API server; choose a /12 or smaller, for example 10.96.0.0/12"},
		{"too large, IPv6", netip.MustParsePrefix("fd00::/107"), "fd00::/107", "it is larger than any range of an API server; choose a /108 or smaller, for example fd00::/108"},
		{"mapped", netip.MustParsePrefix("::ffff:10.96.0.0/112"), "::ffff:10.96.0.0/112", "it is an IPv4-mapped IPv6 prefix; write 10.96.0.0/16"},
		{"all of IPv4, mapped", netip.MustParsePrefix("::ffff:0.0.0.0/90"), "::ffff:0.0.0.0/90", "it is an IPv4-mapped IPv6 prefix; write an IPv4 prefix or an IPv6 prefix outside ::ffff:0:0/96"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b, err := bitmap.New(tc.prefix)
			if tc.reason == "" {
				if err != nil || b.String() != tc.want || b.Len() != 0 {
					t.Errorf("New(%s) = %v, %v, want %s", tc.prefix, b, err, tc.want)
				}
				return
			}
			var refused *bitmap.SpecError
			if !errors.As(err, &refused) || b != nil {
				t.Fatalf("New(%s) = %v, %v, want a *SpecError", tc.prefix, b, err)
			}
			if diff := cmp.Diff(bitmap.SpecError{Spec: tc.want, Reason: tc.reason}, *refused); diff != "" {
				t.Errorf("refused (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSpecErrorMessage(t *testing.T) {
	_, err := bitmap.Parse("10.0.0.0/11", nil)
	const want = `"10.0.0.0/11" cannot be the range of a bitmap: it is larger than any range of an API server; choose a /12 or smaller, for example 10.0.0.0/12`
	if err == nil || err.Error() != want {
		t.Errorf("%v,\nwant %s", err, want)
	}
}

func TestUnset(t *testing.T) {
	for _, data := range [][]byte{nil, {}, {0, 0}} {
		b, err := bitmap.Parse("", data)
		if !errors.Is(err, bitmap.ErrUnset) || b != nil {
			t.Errorf("Parse of no range and %x = %v, %v, want ErrUnset", data, b, err)
		}
	}
	const want = "the bitmap was created and never used: take the range from the API server, no address is in use"
	if got := bitmap.ErrUnset.Error(); got != want {
		t.Errorf("message %q, want %q", got, want)
	}
}

func TestNodePorts(t *testing.T) {
	for _, spec := range []string{"30000-32767", "1-65535", "0-0", "30000-30000", "80-90"} {
		b, err := bitmap.Parse(spec, []byte{1, 0xff})
		if !errors.Is(err, bitmap.ErrNodePorts) || b != nil {
			t.Fatalf("Parse(%q) = %v, %v, want ErrNodePorts", spec, b, err)
		}
		if want := `range "` + spec + `": the bitmap is that of node ports, not of addresses: leave it as it is`; err.Error() != want {
			t.Errorf("message %q, want %q", err, want)
		}
	}
}

func TestOverflow(t *testing.T) {
	const wayOut = "either the range was larger once or the bytes are damaged; look for Services with such addresses, then rebuild the bitmap from the Services"
	end := netip.MustParseAddr("255.255.255.255")
	for _, tc := range []struct {
		name, spec string
		data       []byte
		want       bitmap.OverflowError
		message    string
	}{
		{
			"broadcast address", "10.0.0.0/28", []byte{0x40, 0x01},
			bitmap.OverflowError{Bits: 1, Max: 14, First: 14, Addr: netip.MustParseAddr("10.0.0.15")},
			"the bitmap of 10.0.0.0/28 has 14 bits, with 1 set beyond them, the first is bit 14 (10.0.0.15): " + wayOut,
		},
		{
			"two in the last byte", "10.0.0.0/28", []byte{0xff, 0xff},
			bitmap.OverflowError{Bits: 2, Max: 14, First: 14, Addr: netip.MustParseAddr("10.0.0.15")},
			"the bitmap of 10.0.0.0/28 has 14 bits, with 2 set beyond them, the first is bit 14 (10.0.0.15): " + wayOut,
		},
		{
			"over two bytes", "10.0.0.0/28", []byte{0x81, 0x40, 0x01},
			bitmap.OverflowError{Bits: 3, Max: 14, First: 14, Addr: netip.MustParseAddr("10.0.0.15")},
			"the bitmap of 10.0.0.0/28 has 14 bits, with 3 set beyond them, the first is bit 14 (10.0.0.15): " + wayOut,
		},
		{
			"a larger range", "10.0.0.0/24", append([]byte{0x03}, make([]byte, 63)...), // 10.0.1.249 and .250
			bitmap.OverflowError{Bits: 2, Max: 254, First: 504, Addr: netip.MustParseAddr("10.0.1.249")},
			"the bitmap of 10.0.0.0/24 has 254 bits, with 2 set beyond them, the first is bit 504 (10.0.1.249): " + wayOut,
		},
		{
			"the range is quoted as it stands", "10.000.0.0/30", []byte{0x07},
			bitmap.OverflowError{Bits: 1, Max: 2, First: 2, Addr: netip.MustParseAddr("10.0.0.3")},
			"the bitmap of 10.000.0.0/30 has 2 bits, with 1 set beyond them, the first is bit 2 (10.0.0.3): " + wayOut,
		},
		{
			"no bits at all", "10.0.0.0/32", []byte{0x01},
			bitmap.OverflowError{Bits: 1, Max: 0, First: 0, Addr: netip.MustParseAddr("10.0.0.1")},
			"the bitmap of 10.0.0.0/32 has 0 bits, with 1 set beyond them, the first is bit 0 (10.0.0.1): " + wayOut,
		},
		{
			"IPv6, a byte that is full", "fd00::/125", []byte{0x80},
			bitmap.OverflowError{Bits: 1, Max: 7, First: 7, Addr: netip.MustParseAddr("fd00::8")},
			"the bitmap of fd00::/125 has 7 bits, with 1 set beyond them, the first is bit 7 (fd00::8): " + wayOut,
		},
		{
			"IPv6, in the range behind the last bit", "fd00::/108", append([]byte{0x80}, make([]byte, 8191)...),
			bitmap.OverflowError{Bits: 1, Max: 65535, First: 65535, Addr: netip.MustParseAddr("fd00::1:0")},
			"the bitmap of fd00::/108 has 65535 bits, with 1 set beyond them, the first is bit 65535 (fd00::1:0): " + wayOut,
		},
		{
			"the last address of IPv4", "255.255.255.240/28", []byte{0x40, 0},
			bitmap.OverflowError{Bits: 1, Max: 14, First: 14, Addr: end},
			"the bitmap of 255.255.255.240/28 has 14 bits, with 1 set beyond them, the first is bit 14 (255.255.255.255): " + wayOut,
		},
		{
			"behind the end of IPv4", "255.255.255.240/28", []byte{0x80, 0},
			bitmap.OverflowError{Bits: 1, Max: 14, First: 15},
			"the bitmap of 255.255.255.240/28 has 14 bits, with 1 set beyond them, the first is bit 15: " + wayOut,
		},
		{
			"behind the end of IPv6", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:fff0/124", []byte{0x80, 0},
			bitmap.OverflowError{Bits: 1, Max: 15, First: 15},
			"the bitmap of ffff:ffff:ffff:ffff:ffff:ffff:ffff:fff0/124 has 15 bits, with 1 set beyond them, the first is bit 15: " + wayOut,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b, err := bitmap.Parse(tc.spec, tc.data)
			var over *bitmap.OverflowError
			if !errors.As(err, &over) || b != nil {
				t.Fatalf("Parse = %v, %v, want an *OverflowError", b, err)
			}
			tc.want.Spec = tc.spec
			if diff := cmp.Diff(tc.want, *over, byEquality); diff != "" {
				t.Errorf("overflow (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.message, err.Error()); diff != "" {
				t.Errorf("message (-want +got):\n%s", diff)
			}
		})
	}
}

// TestOverflowIsExact sets one bit after the other: the first that is refused is the one behind the last address.
func TestOverflowIsExact(t *testing.T) {
	for _, p := range lengths() {
		o := newOracle(p)
		for _, i := range []int{o.capacity() - 1, o.capacity(), o.capacity() + 1, o.capacity() + 7, o.capacity() + 64, o.capacity() + 1000} {
			if i < 0 {
				continue
			}
			o = newOracle(p)
			o.set(i, 1)
			_, err := bitmap.Parse(p.String(), o.number.Bytes())
			var over *bitmap.OverflowError
			switch {
			case i < o.capacity() && err != nil:
				t.Errorf("%s, bit %d of %d: %v", p, i, o.capacity(), err)
			case i >= o.capacity() && (!errors.As(err, &over) || over.First != i || over.Bits != 1 || over.Max != o.capacity()):
				t.Errorf("%s, bit %d of %d: %v, want an *OverflowError", p, i, o.capacity(), err)
			}
		}
	}
}
