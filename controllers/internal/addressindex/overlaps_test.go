package addressindex

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestOverlapsAreThoseOfNodesAndThoseDeclared(t *testing.T) {
	l := New()
	l.setNode("a", []netip.Prefix{netip.MustParsePrefix("10.1.3.0/24"), netip.MustParsePrefix("fd01::7/128")})
	l.setNode("b", []netip.Prefix{netip.MustParsePrefix("10.2.0.0/24")})
	declared := []Network{{"network office", netip.MustParsePrefix("10.0.0.0/8")}, {"network lab", netip.MustParsePrefix("fd09::/64")}}
	for name, tc := range map[string]struct {
		prefixes []string
		want     []string
	}{
		"nothing":       {prefixes: []string{"192.168.0.0/16", "fd02::/64"}},
		"IPv4":          {prefixes: []string{"10.1.0.0/16"}, want: []string{"network office 10.0.0.0/8", "node a 10.1.3.0/24"}},
		"IPv6":          {prefixes: []string{"fd01::/112"}, want: []string{"node a fd01::7/128"}},
		"both families": {prefixes: []string{"10.2.0.128/25", "fd09::/80"}, want: []string{"network lab fd09::/64", "network office 10.0.0.0/8", "node b 10.2.0.0/24"}},
	} {
		t.Run(name, func(t *testing.T) {
			var prefixes []netip.Prefix
			for _, text := range tc.prefixes {
				prefixes = append(prefixes, netip.MustParsePrefix(text))
			}
			var got []string
			for _, n := range l.Overlaps(prefixes, declared) {
				got = append(got, n.Owner+" "+n.Prefix.String())
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
