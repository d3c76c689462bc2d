package steering_test

import (
	"fmt"
	"net/netip"
	"testing"

	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
	corev1 "k8s.io/api/core/v1"

	"github.com/clusterip-operator/clusterip-operator/test/integration/inventory"
)

func familyOf(address string) corev1.IPFamily {
	if netip.MustParseAddr(address).Is4() {
		return corev1.IPv4Protocol
	}
	return corev1.IPv6Protocol
}

// staticBand is how many addresses of a range are meant for people (KEP-3070): the first of those that can be used. It is for ranges of up
// to 256 addresses.
func staticBand(cidr string) int {
	prefix := netip.MustParsePrefix(cidr)
	if prefix.Addr().BitLen()-prefix.Bits() <= 4 {
		return 0
	}
	return 16
}

// isStatic reports whether an address lies in the static band of a range.
func isStatic(cidr, address string) bool {
	next := netip.MustParsePrefix(cidr).Masked().Addr()
	for range staticBand(cidr) {
		next = next.Next()
		if next.String() == address {
			return true
		}
	}
	return false
}

// isDynamic reports whether an address lies in the dynamic band of a range.
func isDynamic(cidr, address string) bool {
	prefix := netip.MustParsePrefix(cidr)
	return prefix.Contains(netip.MustParseAddr(address)) && address != prefix.Masked().Addr().String() && !isStatic(cidr, address)
}

// dynamic succeeds for addresses of the dynamic band of a range, static for those of the static one.
func dynamic(cidr string) types.GomegaMatcher {
	return Satisfy(func(address string) bool { return isDynamic(cidr, address) })
}

func static(cidr string) types.GomegaMatcher {
	return Satisfy(func(address string) bool { return isStatic(cidr, address) })
}

// size is how many addresses of a range can be used.
func size(cidr string) int {
	prefix := netip.MustParsePrefix(cidr)
	all := 1 << (prefix.Addr().BitLen() - prefix.Bits())
	if prefix.Addr().Is4() {
		return all - 2 // neither network nor broadcast
	}
	return all - 1
}

// dynamics is how many addresses the dynamic band of a range has.
func dynamics(cidr string) int { return size(cidr) - staticBand(cidr) }

func TestBandsOfTheSpecs(t *testing.T) {
	for _, tc := range []struct {
		cidr, static, dynamic string
		dynamics              int
	}{
		{"10.0.0.0/25", "10.0.0.16", "10.0.0.17", 110},
		{"10.0.0.128/26", "10.0.0.144", "10.0.0.145", 46},
		{"fd00::/121", "fd00::10", "fd00::11", 111},
		{"10.0.0.0/28", "10.0.0.0", "10.0.0.1", 14},
	} {
		if isDynamic(tc.cidr, tc.static) || !isDynamic(tc.cidr, tc.dynamic) || dynamics(tc.cidr) != tc.dynamics {
			t.Errorf("%s: %d dynamic addresses, %s dynamic: %t, %s: %t", tc.cidr, dynamics(tc.cidr),
				tc.static, isDynamic(tc.cidr, tc.static), tc.dynamic, isDynamic(tc.cidr, tc.dynamic))
		}
	}
}

// held are the addresses of Services that lie in a range.
func held(services []*corev1.Service, cidr string) (addresses []string) {
	for _, service := range services {
		for _, address := range inventory.ClusterIPs(service) {
			if netip.MustParsePrefix(cidr).Contains(netip.MustParseAddr(address)) {
				addresses = append(addresses, address)
			}
		}
	}
	return addresses
}

// lieIn succeeds for a Service that has one address in each of the ranges, in this order, and no other.
func lieIn(cidrs ...string) types.GomegaMatcher {
	return WithTransform(func(service *corev1.Service) (ranges []string) {
		for i, address := range inventory.ClusterIPs(service) {
			if i < len(cidrs) && netip.MustParsePrefix(cidrs[i]).Contains(netip.MustParseAddr(address)) {
				ranges = append(ranges, cidrs[i])
			} else {
				ranges = append(ranges, fmt.Sprintf("%s of %s/%s", address, service.Namespace, service.Name))
			}
		}
		return ranges
	}, Equal(cidrs))
}
