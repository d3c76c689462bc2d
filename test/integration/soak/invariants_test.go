package soak_test

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"

	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/history"
	"github.com/clusterip-operator/clusterip-operator/test/integration/inventory"
)

// acquisition is a Service that got an address, by its creation or by a change.
type acquisition struct {
	history.Request
	service string // namespace/name
	address netip.Addr
}

// acquisitions are what the Services of API servers' logs got. That two of them had an address at a
// time is for package history.
func acquisitions(requests []history.Request) (all []acquisition) {
	has := map[string][]netip.Addr{} // addresses, by the Service
	for _, r := range requests {
		if r.Resource != "services" || !r.Granted() {
			continue
		}
		service := r.Namespace + "/" + r.Name
		for _, address := range r.Addresses() {
			if !slices.Contains(has[service], address) {
				all = append(all, acquisition{r, service, address})
			}
		}
		has[service] = r.Addresses()
	}
	return all
}

// Why an address is where no policy allows it.
const (
	isStranger = "a stranger in an exclusive range"
	isOutside  = "a tenant outside of its ranges"
)

// unsteered says why the address should not be the Service's, empty if it may be.
func (a acquisition) unsteered() string {
	switch inside := isExclusive(a.address); {
	case inside && a.Namespace != tenant:
		return isStranger
	case !inside && a.Namespace == tenant:
		return isOutside
	default:
		return ""
	}
}

// unsettled lists what is wrong and ends by waiting: addresses without IPAddress or ServiceCIDR,
// IPAddresses without Service, reservations that are not kept. Duplicates stay: they are left out.
func (e *environment) unsettled(ctx context.Context) []string {
	GinkgoHelper()
	found := slices.DeleteFunc(e.Breaches(ctx), isDuplicate)
	var prefixes []netip.Prefix
	for _, serviceCIDR := range e.ServiceCIDRs(ctx) {
		for _, cidr := range serviceCIDR.Spec.CIDRs {
			prefixes = append(prefixes, netip.MustParsePrefix(cidr))
		}
	}
	for _, service := range e.Services(ctx) {
		found = append(found, outOfRange(service.Name, inventory.ClusterIPs(&service), prefixes)...)
	}
	for _, address := range reserved {
		if e.Purpose(ctx, address) != cluster.Reservation && e.Owner(ctx, address) != tenant+"/reserved" {
			found = append(found, "nothing keeps the reserved address "+address)
		}
	}
	return found
}

// isDuplicate reports whether a breach is an address of two Services, or follows from one.
func isDuplicate(breach string) bool { return strings.Contains(breach, "is held by the Services") }

func outOfRange(service string, addresses []string, prefixes []netip.Prefix) (found []string) {
	for _, address := range addresses {
		where := netip.MustParseAddr(address)
		if !slices.ContainsFunc(prefixes, func(p netip.Prefix) bool { return p.Contains(where) }) {
			found = append(found, fmt.Sprintf("no ServiceCIDR has %s of %s", address, service))
		}
	}
	return found
}
