package addressindex

import (
	"net/netip"
	"slices"
	"strings"
)

// Overlaps returns the networks that meet any of the prefixes, by owner: those of nodes, and those that were declared as used by something
// else.
func (l *Index) Overlaps(prefixes []netip.Prefix, declared []Network) []Network {
	out := l.NodeNetworks(prefixes)
	for _, n := range declared {
		if slices.ContainsFunc(prefixes, n.Prefix.Overlaps) {
			out = append(out, n)
		}
	}
	slices.SortFunc(out, func(a, b Network) int {
		return strings.Compare(a.Owner+a.Prefix.String(), b.Owner+b.Prefix.String())
	})
	return out
}
