package growth

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/clusterip-operator/clusterip-operator/internal/addressindex"
)

func networks(owner string, prefixes ...string) (out []addressindex.Network) {
	for _, p := range prefixes {
		out = append(out, addressindex.Network{Owner: owner, Prefix: netip.MustParsePrefix(p)})
	}
	return out
}

func TestBlock(t *testing.T) {
	for name, tc := range map[string]struct {
		from  string
		bits  int
		taken []string
		want  string // empty: none
	}{
		"the lowest of an empty supernet":               {"10.128.0.0/10", 16, nil, "10.128.0.0/16"},
		"the whole supernet":                            {"10.128.0.0/24", 24, nil, "10.128.0.0/24"},
		"behind one that is taken":                      {"10.128.0.0/10", 16, []string{"10.128.0.0/16"}, "10.129.0.0/16"},
		"in the gap that a deleted one has left":        {"10.128.0.0/10", 16, []string{"10.128.0.0/16", "10.130.0.0/16"}, "10.129.0.0/16"},
		"past a single address inside of a block":       {"10.128.0.0/10", 16, []string{"10.128.255.255/32"}, "10.129.0.0/16"},
		"past a network that has many blocks":           {"10.128.0.0/10", 16, []string{"10.128.0.0/12"}, "10.144.0.0/16"},
		"nothing inside of a network":                   {"10.128.0.0/10", 16, []string{"10.0.0.0/8"}, ""},
		"nothing, when each block has something":        {"10.128.0.0/25", 26, []string{"10.128.0.3/32", "10.128.0.64/28"}, ""},
		"the last block":                                {"10.128.0.0/25", 26, []string{"10.128.0.0/26"}, "10.128.0.64/26"},
		"networks beside the supernet do not count":     {"10.128.0.0/25", 26, []string{"10.127.0.0/16", "10.128.0.128/25"}, "10.128.0.0/26"},
		"the end of all addresses":                      {"255.255.255.0/24", 25, []string{"255.255.255.200/32"}, "255.255.255.0/25"},
		"nothing behind the end of all addresses":       {"255.255.255.0/24", 25, []string{"255.255.255.1/32", "255.255.255.200/32"}, ""},
		"IPv6, the lowest":                              {"fd00:10:128::/48", 112, nil, "fd00:10:128::/112"},
		"IPv6, behind one that is taken":                {"fd00:10:128::/48", 112, []string{"fd00:10:128::/112", "10.0.0.0/8"}, "fd00:10:128::1:0/112"},
		"IPv6, past 2^48 blocks":                        {"fd00:10:128::/48", 112, []string{"fd00:10:128::/64"}, "fd00:10:128:1::/112"},
		"IPv6, nothing between networks":                {"fd00::/63", 64, []string{"fd00::1/128", "fd00:0:0:1:8000::/65"}, ""},
		"IPv6, nothing behind the end of all addresses": {"ffff:ffff:ffff:ffff::/64", 64, []string{"ffff:ffff:ffff:ffff::1/128"}, ""},
	} {
		s := supernet{netip.MustParsePrefix(tc.from), tc.bits}
		got := s.block(networks("somebody", tc.taken...))
		if text := got.String(); got.IsValid() && text != tc.want || !got.IsValid() && tc.want != "" {
			t.Errorf("%s: %s, want %q", name, text, tc.want)
		}
	}
}

// The oracle tries one block after the other.
func TestBlockAgainstAnOracle(t *testing.T) {
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	for range 2000 {
		s := supernet{netip.MustParsePrefix("10.128.0.0/24"), 25 + random.IntN(6)}
		var taken []addressindex.Network
		for range random.IntN(12) {
			a := netip.AddrFrom4([4]byte{10, 128, 0, byte(random.IntN(256))})
			taken = append(taken, addressindex.Network{Prefix: netip.PrefixFrom(a, 26+random.IntN(7)).Masked()})
		}
		var want netip.Prefix
		for i := 0; i < 256 && !want.IsValid(); i += 1 << (32 - s.bits) {
			want = netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 128, 0, byte(i)}), s.bits)
			for _, o := range taken {
				if o.Prefix.Overlaps(want) {
					want = netip.Prefix{}
					break
				}
			}
		}
		if got := s.block(taken); got != want {
			t.Fatalf("seed %d: %v of %v: %s, want %s", seed, s, taken, got, want)
		}
	}
}

func TestNameOf(t *testing.T) {
	for block, want := range map[string]string{
		"10.128.0.0/16": "grown-10-128-0-0-16", "fd00:10:128::/112": "grown-fd00-10-128---112",
		"fd00:10:128::1:0/112": "grown-fd00-10-128--1-0-112", "::/64": "grown----64",
	} {
		if got := nameOf(netip.MustParsePrefix(block)); got != want {
			t.Errorf("%s: %s, want %s", block, got, want)
		}
	}
	names := map[string]string{}
	for i := range 256 {
		for _, block := range []string{
			fmt.Sprintf("10.128.%d.0/24", i), fmt.Sprintf("10.%d.0.0/24", i), fmt.Sprintf("10:%x::/64", i), fmt.Sprintf("10::%x:0/112", i), fmt.Sprintf("10::%x:0:0/112", i),
		} {
			prefix := netip.MustParsePrefix(block).Masked().String()
			if other, known := names[nameOf(netip.MustParsePrefix(prefix))]; known && other != prefix {
				t.Errorf("%s and %s have one name", other, prefix)
			}
			names[nameOf(netip.MustParsePrefix(prefix))] = prefix
		}
	}
}
