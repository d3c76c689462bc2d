package bitmap_test

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

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
		{"no address", "/16", nil, noPrefix},
		{"length out of reach", "10.96.0.0/33", nil, noPrefix},
		{"an octet too large", "10.0256.0.0/16", nil, noPrefix},
		{"two ranges", "10.96.0.0/16,fd00::/112", nil, noPrefix},
		{"zone", "fe80::%eth0/112", nil, noPrefix},
		{"one port", "30000", nil, noPrefix},
		{"ports the wrong way round", "32767-30000", nil, noPrefix},
		{"host bits", "10.96.7.0/16", nil, "it has host bits set, which no API server writes; if the range is meant, write 10.96.0.0/16"},
		{"host bits after leading zeros", "10.096.0.1/16", nil, "it has host bits set, which no API server writes; if the range is meant, write 10.96.0.0/16"},
		{"host bits, IPv6", "fd00:10:96::1/112", nil, "it has host bits set, which no API server writes; if the range is meant, write fd00:10:96::/112"},
		{"too large", "10.0.0.0/11", nil, "it is larger than any range of an API server; choose a /12 or smaller, for example 10.0.0.0/12"},
		{"too large, IPv6", "fd00:10:96::/107", nil, "it is larger than any range of an API server; choose a /108 or smaller, for example fd00:10:96::/108"},
		{"IPv4-mapped", "::ffff:10.96.0.0/112", nil, "it is an IPv4-mapped IPv6 prefix; write 10.96.0.0/16"},
		{"no range, but bits", "", []byte{0, 2, 1},
			"there is no range, although addresses are in use; restore it from a backup, or rebuild the bitmap from the Services"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b, err := bitmap.Parse(tc.spec, tc.data)
			if want := fmt.Sprintf("%q cannot be the range of a bitmap: %s", tc.spec, tc.reason); b != nil || err == nil || err.Error() != want {
				t.Errorf("Parse(%q) = %v, %v, want %s", tc.spec, b, err, want)
			}
		})
	}
}

func TestNew(t *testing.T) {
	const tooLarge = "it is larger than any range of an API server; choose a "
	for p, reason := range map[netip.Prefix]string{
		netip.MustParsePrefix("10.96.3.4/12"):         "",
		netip.MustParsePrefix("fd00::7/108"):          "",
		{}:                                            noPrefix,
		netip.MustParsePrefix("10.99.3.4/11"):         tooLarge + "/12 or smaller, for example 10.96.0.0/12",
		netip.MustParsePrefix("fd00::/107"):           tooLarge + "/108 or smaller, for example fd00::/108",
		netip.MustParsePrefix("::ffff:10.96.0.0/112"): "it is an IPv4-mapped IPv6 prefix; write 10.96.0.0/16",
		netip.MustParsePrefix("::ffff:0.0.0.0/90"):    "it is an IPv4-mapped IPv6 prefix; write an IPv4 prefix or an IPv6 prefix outside ::ffff:0:0/96",
	} {
		b, err := bitmap.New(p)
		switch {
		case reason == "" && (err != nil || b.Prefix() != p.Masked() || b.String() != p.Masked().String() || b.Len() != 0):
			t.Errorf("New(%s) = %v, %v", p, b, err)
		case reason != "" && (err == nil || b != nil || !strings.HasSuffix(err.Error(), reason)):
			t.Errorf("New(%s) = %v, %v, want %s", p, b, err, reason)
		}
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
	for _, tc := range []struct {
		spec string
		data []byte
		want string
	}{
		{"10.0.0.0/28", []byte{0x40, 0x01}, "14 bits, with 1 set beyond them, the first is bit 14 (10.0.0.15)"}, // the broadcast address
		{"10.0.0.0/28", []byte{0x81, 0x40, 0x01}, "14 bits, with 3 set beyond them, the first is bit 14 (10.0.0.15)"},
		{"10.0.0.0/24", append([]byte{0x03}, make([]byte, 63)...), "254 bits, with 2 set beyond them, the first is bit 504 (10.0.1.249)"},
		{"10.000.0.0/30", []byte{0x07}, "2 bits, with 1 set beyond them, the first is bit 2 (10.0.0.3)"}, // quoted as it stands
		{"10.0.0.0/32", []byte{0x01}, "0 bits, with 1 set beyond them, the first is bit 0 (10.0.0.1)"},
		{"fd00::/108", append([]byte{0x80}, make([]byte, 8191)...), "65535 bits, with 1 set beyond them, the first is bit 65535 (fd00::1:0)"},
		{"255.255.255.240/28", []byte{0x40, 0}, "14 bits, with 1 set beyond them, the first is bit 14 (255.255.255.255)"},
		{"255.255.255.240/28", []byte{0x80, 0}, "14 bits, with 1 set beyond them, the first is bit 15"}, // behind the end of IPv4
		{"ffff:ffff:ffff:ffff:ffff:ffff:ffff:fff0/124", []byte{0x80, 0}, "15 bits, with 1 set beyond them, the first is bit 15"},
	} {
		want := "the bitmap of " + tc.spec + " has " + tc.want + ": " + wayOut
		if b, err := bitmap.Parse(tc.spec, tc.data); b != nil || err == nil || err.Error() != want {
			t.Errorf("%s, %x: %v, %v,\nwant %s", tc.spec, tc.data, b, err, want)
		}
	}
}

// TestOverflowIsExact sets one bit at a time: the first refused one is behind the last address.
func TestOverflowIsExact(t *testing.T) {
	for _, p := range lengths() {
		for _, more := range []int{-1, 0, 1, 7, 64, 1000} {
			o := newOracle(p)
			i := o.capacity() + more
			if i < 0 {
				continue
			}
			o.set(i, 1)
			_, err := bitmap.Parse(p.String(), o.number.Bytes())
			if (more >= 0) != (err != nil) || err != nil && !strings.Contains(err.Error(), fmt.Sprintf("with 1 set beyond them, the first is bit %d", i)) {
				t.Errorf("%s, bit %d of %d: %v", p, i, o.capacity(), err)
			}
		}
	}
}
