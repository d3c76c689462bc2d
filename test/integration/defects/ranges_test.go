package defects_test

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	networkingv1 "k8s.io/api/networking/v1"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
)

// pair is two ServiceCIDRs, each of which covers the address of a Service, so that each is a reason to let the other go.
type pair struct {
	name    string
	cidrs   [2]string
	address string
}

func (p pair) members() []string { return []string{p.name + "-a", p.name + "-b"} }

var pairs = []pair{
	{"identical-ipv4", [2]string{"10.101.0.0/24", "10.101.0.0/24"}, "10.101.0.77"},
	{"identical-ipv6", [2]string{"fd00:101::/120", "fd00:101::/120"}, "fd00:101::77"},
	{"nested-ipv4", [2]string{"10.102.0.0/24", "10.102.0.0/26"}, "10.102.0.5"},
	{"nested-ipv6", [2]string{"fd00:102::/120", "fd00:102::/122"}, "fd00:102::5"},
}

// held is a ServiceCIDR that something in it keeps from being deleted, and nothing else covers.
type held struct {
	name, cidr string
	// services hold the addresses from the 20th on, in this order.
	services []string
	// foreign is an address with an IPAddress of another manager, empty for none.
	foreign string
}

var helds = []held{
	{name: "crowded-ipv4", cidr: "10.103.0.0/24", services: crowd("shop")},
	{name: "crowded-ipv6", cidr: "fd00:103::/120", services: crowd("shop-of-a-customer-who-is-fond-of-names-as-long-as-possible")},
	{name: "single-ipv4", cidr: "10.104.0.0/24", services: []string{"last-one"}},
	{name: "foreign-ipv4", cidr: "10.105.0.0/24", foreign: "10.105.0.9"},
	{name: "foreign-ipv6", cidr: "fd00:105::/120", foreign: "fd00:105::9"},
}

// crowd names twelve Services, two more than are ever listed.
func crowd(name string) []string {
	names := make([]string, 12)
	for i := range names {
		names[i] = fmt.Sprintf("%s-%02d", name, i)
	}
	return names
}

func heldBy(name string) held {
	return helds[slices.IndexFunc(helds, func(h held) bool { return h.name == name })]
}

// address is that of the i-th Service.
func (h held) address(i int) string {
	a := netip.MustParsePrefix(h.cidr).Addr()
	for range 20 + i {
		a = a.Next()
	}
	return a.String()
}

// blocker is how the i-th Service is called where blockers are named.
func (h held) blocker(i int) string {
	return fmt.Sprintf("%s (Service %s/%s)", h.address(i), cluster.Namespace, h.services[i])
}

// somebody manages the IPAddresses that are not the API server's.
const somebody = "widgets.example.com"

func foreignAddress(address string) *networkingv1.IPAddress {
	return framework.NewIPAddress(address, "", "", framework.ManagedBy(somebody),
		framework.WithParent(networkingv1.ParentReference{Group: "example.com", Resource: "widgets", Namespace: "factory", Name: "gear"}))
}

func createRanges(ctx context.Context, c *cluster.Cluster) {
	GinkgoHelper()
	for _, p := range pairs {
		for i, name := range p.members() {
			c.CreateServiceCIDR(ctx, name, p.cidrs[i])
		}
	}
	for _, h := range helds {
		c.CreateServiceCIDR(ctx, h.name, h.cidr)
	}
}

func holdRanges(ctx context.Context, c *cluster.Cluster) {
	GinkgoHelper()
	c.WaitLookedAfter(ctx, everyRange()...)
	for _, p := range pairs {
		c.HoldAddress(ctx, p.name, p.address)
	}
	for _, h := range helds {
		for i, service := range h.services {
			c.HoldAddress(ctx, service, h.address(i))
		}
		if h.foreign != "" {
			c.CreateIPAddress(ctx, foreignAddress(h.foreign))
		}
	}
}

func everyRange() []string {
	var names []string
	for _, p := range pairs {
		names = append(names, p.members()...)
	}
	for _, h := range helds {
		names = append(names, h.name)
	}
	return names
}

func holdsARange(service string) bool {
	return slices.ContainsFunc(pairs, func(p pair) bool { return p.name == service }) ||
		strings.HasPrefix(service, "shop-") || service == "last-one"
}

// heldByUpstream returns those of a pair that still have kube-controller-manager's finalizer.
func heldByUpstream(ctx context.Context, c *cluster.Cluster, p pair) []string {
	GinkgoHelper()
	return slices.DeleteFunc(c.Remaining(ctx, p.members()...), func(name string) bool {
		return !slices.Contains(c.ServiceCIDR(ctx, name).Finalizers, cluster.UpstreamFinalizer)
	})
}

// covered reports whether one of the pair is left that has the address.
func (p pair) covered(ctx context.Context, c *cluster.Cluster) bool {
	GinkgoHelper()
	for i, name := range p.members() {
		if c.ServiceCIDR(ctx, name) != nil && netip.MustParsePrefix(p.cidrs[i]).Contains(netip.MustParseAddr(p.address)) {
			return true
		}
	}
	return false
}
