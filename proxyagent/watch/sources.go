package watch

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// sourceRanges reads the source ranges of a load balancer, and reports whether some are lost
// because they cannot be read: what they were meant to close must not be open then. The API lets
// spaces around them pass, and as many of them as fit into an object; what is kept has a bound.
func sourceRanges(texts []string, bad *malformed) (ranges []netip.Prefix, lost bool) {
	before := bad.count
	ranges = parse("loadBalancerSourceRange", texts, func(s string) (netip.Prefix, bool) { return parsePrefix(strings.TrimSpace(s)) }, bad)
	ranges = merged(ranges)
	v6 := slices.IndexFunc(ranges, func(p netip.Prefix) bool { return p.Addr().Is6() })
	if v6 < 0 {
		v6 = len(ranges)
	}
	bound := func(of []netip.Prefix) []netip.Prefix { return of[:min(len(of), model.MaxSources+1)] }
	return slices.Concat(bound(ranges[:v6]), bound(ranges[v6:])), bad.count > before
}

// merged returns the fewest prefixes that cover the same addresses, sorted, in the time of sorting.
func merged(all []netip.Prefix) (out []netip.Prefix) {
	slices.SortFunc(all, netip.Prefix.Compare)
	for _, p := range all {
		n := len(out)
		if n > 0 && out[n-1].Overlaps(p) {
			continue // inside of that one, which sorts before it
		}
		for ; n > 0 && p.Bits() > 0 && out[n-1].Bits() == p.Bits() && parent(out[n-1]) == parent(p); n-- {
			p = parent(p)
		}
		out = append(out[:n], p)
	}
	return out
}

// parent is the prefix that is shorter by a bit.
func parent(p netip.Prefix) netip.Prefix { return netip.PrefixFrom(p.Addr(), p.Bits()-1).Masked() }
