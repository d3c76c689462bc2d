package allocator_test

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/clusterip-operator/clusterip-operator/allocator"
)

func random6(hi, lo uint64) netip.Addr {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], hi)
	binary.BigEndian.PutUint64(b[8:], lo)
	return netip.AddrFrom16(b)
}

func TestParseRange(t *testing.T) {
	for input, want := range map[string]string{
		"10.96.0.0/16":         "10.96.0.0/16",
		"10.96.77.1/16":        "10.96.0.0/16",
		"0.0.0.0/1":            "0.0.0.0/1",
		"255.255.255.255/32":   "255.255.255.255/32",
		"fd00:10:96::/112":     "fd00:10:96::/112",
		"FD00:0:0:0::FFFF/112": "fd00::/112",
		"::/64":                "::/64",
		"::a00:1/120":          "::a00:0/120",
	} {
		r, err := allocator.ParseRange(input)
		if err != nil {
			t.Errorf("ParseRange(%q): %v", input, err)
			continue
		}
		if r.String() != want || r.Prefix() != netip.MustParsePrefix(want) {
			t.Errorf("ParseRange(%q) = %s with prefix %s, want %s", input, r, r.Prefix(), want)
		}
		if again := rangeOf(t, want); r != again {
			t.Errorf("ParseRange(%q) != ParseRange(%q)", input, want)
		}
	}
}

func TestParseRangeRefuses(t *testing.T) {
	const noPrefix = "it is not an IP prefix; write it as 10.96.0.0/16 or fd00:10:96::/112, without a zone"
	for _, tc := range []struct{ name, input, reason string }{
		{"nothing", "", noPrefix},
		{"garbage", "ten dot zero", noPrefix},
		{"no length", "10.96.0.0", noPrefix},
		{"no address", "/16", noPrefix},
		{"length out of reach, IPv4", "10.96.0.0/33", noPrefix},
		{"length out of reach, IPv6", "fd00::/129", noPrefix},
		{"negative length", "10.96.0.0/-1", noPrefix},
		{"leading zero in the length", "10.96.0.0/08", noPrefix},
		{"leading zero in the address", "010.96.0.0/16", noPrefix},
		{"blank in front", " 10.96.0.0/16", noPrefix},
		{"two ranges", "10.96.0.0/16,fd00::/112", noPrefix},
		{"zone", "fe80::%eth0/64", noPrefix},
		{"the whole of IPv4", "0.0.0.0/0", "it is the whole of IPv4; choose a part of it, for example 10.96.0.0/16"},
		{"the whole of IPv6", "::/0", "it is too large; choose a /64 or smaller inside it, for example ::/64"},
		{"one bit too many", "fd00:10:96::/63", "it is too large; choose a /64 or smaller inside it, for example fd00:10:96::/64"},
		{"host bits in a large one", "fd00:10:96:3::1/48", "it is too large; choose a /64 or smaller inside it, for example fd00:10:96::/64"},
		{"IPv4-mapped", "::ffff:10.96.0.5/112", "it is an IPv4-mapped IPv6 prefix; write 10.96.0.0/16"},
		{"all of IPv4, mapped", "::ffff:0.0.0.0/97", "it is an IPv4-mapped IPv6 prefix; write 0.0.0.0/1"},
		{"around IPv4-mapped", "::ffff:10.96.0.0/80", "it is an IPv4-mapped IPv6 prefix; write an IPv4 prefix or an IPv6 prefix outside ::ffff:0:0/96"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r, err := allocator.ParseRange(tc.input)
			var refused *allocator.RangeError
			if !errors.As(err, &refused) {
				t.Fatalf("ParseRange(%q) = %s, %v, want a *RangeError", tc.input, r, err)
			}
			if r != (allocator.Range{}) {
				t.Errorf("a refused prefix gave the range %s", r)
			}
			if refused.Input != tc.input || refused.Reason != tc.reason {
				t.Errorf("refused %q because %q,\nwant %q", refused.Input, refused.Reason, tc.reason)
			}
			if want := "cannot be a Service range: " + tc.reason; !strings.HasSuffix(err.Error(), want) {
				t.Errorf("error %q does not end with %q", err, want)
			}
		})
	}
}

// TestAdviceIsGood takes the prefixes that errors recommend: they must be accepted.
func TestAdviceIsGood(t *testing.T) {
	for _, input := range []string{"", "0.0.0.0/0", "::/0", "fd00:1:2:3::/63", "2001:db8::/32", "::ffff:10.96.0.5/112", "::ffff:10.1.2.3/128"} {
		_, err := allocator.ParseRange(input)
		var refused *allocator.RangeError
		if !errors.As(err, &refused) {
			t.Fatalf("ParseRange(%q): %v, want a *RangeError", input, err)
		}
		advised := 0
		for word := range strings.FieldsSeq(refused.Reason) {
			p, err := netip.ParsePrefix(strings.Trim(word, ",;"))
			if err != nil {
				continue
			}
			advised++
			if _, err := allocator.NewRange(p); err != nil {
				t.Errorf("%q: the advice %s is refused: %v", input, p, err)
			}
		}
		if advised == 0 {
			t.Errorf("%q: %q names no prefix", input, refused.Reason)
		}
	}
}

func TestNewRangeRefuses(t *testing.T) {
	for _, p := range []netip.Prefix{
		{},
		netip.PrefixFrom(addr("10.0.0.0"), -1),
		netip.PrefixFrom(addr("10.0.0.0"), 33),
		netip.PrefixFrom(addr("10.0.0.0"), 0),
		netip.PrefixFrom(addr("fd00::"), 63),
		netip.PrefixFrom(addr("::ffff:10.0.0.0"), 120),
	} {
		var refused *allocator.RangeError
		if r, err := allocator.NewRange(p); !errors.As(err, &refused) {
			t.Errorf("NewRange(%s) = %s, %v, want a *RangeError", p, r, err)
		}
	}
}

// TestNewRangeDropsZone: a prefix never keeps a zone, so that a range cannot have one.
func TestNewRangeDropsZone(t *testing.T) {
	r, err := allocator.NewRange(netip.PrefixFrom(addr("fe80::5%eth0"), 64))
	if err != nil || r.String() != "fe80::/64" {
		t.Errorf("NewRange = %s, %v", r, err)
	}
}

func TestZeroRange(t *testing.T) {
	var r allocator.Range
	if r.Size() != 0 || !r.Span().IsEmpty() || r.Prefix().IsValid() || r.Contains(addr("::")) {
		t.Errorf("the zero Range has %d addresses, %s", r.Size(), r.Span())
	}
	if got := r.String(); got != "invalid Prefix" {
		t.Errorf("the zero Range is called %q", got)
	}
}

// TestNetworkAndBroadcast names the addresses at both ends of a range that are not usable.
func TestNetworkAndBroadcast(t *testing.T) {
	for _, tc := range []struct {
		prefix, a string
		want      bool
	}{
		{"10.0.0.0/24", "10.0.0.0", false},
		{"10.0.0.0/24", "10.0.0.1", true},
		{"10.0.0.0/24", "10.0.0.254", true},
		{"10.0.0.0/24", "10.0.0.255", false},
		{"10.0.0.0/24", "10.0.1.1", false},
		{"fd00::/120", "fd00::", false},
		{"fd00::/120", "fd00::1", true},
		{"fd00::/120", "fd00::ff", true},
		{"fd00::/120", "fd00::100", false},
		{"fd00::/64", "fd00::ffff:ffff:ffff:ffff", true},
		{"fd00::/64", "fd00:0:0:1::", false},
	} {
		if got := rangeOf(t, tc.prefix).Contains(addr(tc.a)); got != tc.want {
			t.Errorf("%s contains %s: %v", tc.prefix, tc.a, got)
		}
	}
}
