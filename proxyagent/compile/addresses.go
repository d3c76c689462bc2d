package compile

import (
	"net/netip"
	"slices"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// otherFamily is the one reason that is no mistake.
const otherFamily = "of the other family"

var broadcast = netip.AddrFrom4([4]byte{255, 255, 255, 255})

// whyNoVirtualIP returns why an address cannot be a virtual IP of the family, or nothing when it
// can. Loopback and multicast addresses are refused though kube-proxy takes them from a load
// balancer's status: they would take traffic from the node itself.
func whyNoVirtualIP(a netip.Addr, f model.Family) string {
	switch {
	case !a.IsValid():
		return "no address"
	case a.Is4In6():
		return "an IPv4 address mapped into IPv6"
	case model.FamilyOf(a) != f:
		return otherFamily
	case a.Zone() != "":
		return "an address with a zone"
	case a.IsUnspecified():
		return "the unspecified address"
	case a.IsLoopback():
		return "a loopback address"
	case a.IsMulticast():
		return "a multicast address"
	case a == broadcast:
		return "the broadcast address"
	default:
		return ""
	}
}

// whyNoEndpoint returns why an address and port cannot be an endpoint of the family, or nothing
// when it can. The API server refuses most of these, but objects may be older than its check.
func whyNoEndpoint(a netip.AddrPort, f model.Family) string {
	switch why := whyNoVirtualIP(a.Addr(), f); {
	case why != "":
		return why
	case a.Addr().IsLinkLocalUnicast():
		return "a link-local address"
	case a.Port() == 0:
		return "port 0"
	default:
		return ""
	}
}

// virtualIPs returns those that can be virtual IPs of the family, sorted and unique; nil for none.
func virtualIPs(addrs []netip.Addr, f model.Family) []netip.Addr {
	var out []netip.Addr
	for _, a := range addrs {
		if whyNoVirtualIP(a, f) == "" {
			out = append(out, a)
		}
	}
	return sorted(out, netip.Addr.Compare)
}

// sorted sorts in place and drops duplicates.
func sorted[T comparable](s []T, compare func(a, b T) int) []T {
	slices.SortFunc(s, compare)
	return slices.Compact(s)
}
