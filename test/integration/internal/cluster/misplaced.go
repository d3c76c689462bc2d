package cluster

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/test/integration/inventory"
)

// ExpectConsistent waits until every address has one Service and one IPAddress, and lies where the
// policies allow it. Policies must not conflict, and be older than the Services.
func (c *Cluster) ExpectConsistent(ctx context.Context) {
	GinkgoHelper()
	c.ExpectConsistentWithin(ctx, Timeout)
}

// ExpectConsistentWithin is ExpectConsistent with another time-out.
func (c *Cluster) ExpectConsistentWithin(ctx context.Context, timeout time.Duration) {
	GinkgoHelper()
	Eventually(func() []string { return append(c.Breaches(ctx), c.Misplaced(ctx)...) }).
		WithTimeout(timeout).WithPolling(250 * time.Millisecond).Should(BeEmpty())
}

// Misplaced lists the Services' addresses that policies do not allow: in a range exclusive to other
// Services, or in another Service's reservation. It takes policies to be free of conflicts.
func (c *Cluster) Misplaced(ctx context.Context) []string {
	GinkgoHelper()
	namespaces, err := c.Client().CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
	Expect(err).NotTo(HaveOccurred())
	return snapshot{c.AllPolicies(ctx), c.ServiceCIDRs(ctx), namespaces.Items, c.Services(ctx)}.misplaced()
}

// snapshot is what decides where addresses may be.
type snapshot struct {
	policies     []v1alpha1.ServiceCIDRPolicy
	serviceCIDRs []networkingv1.ServiceCIDR
	namespaces   []corev1.Namespace
	services     []corev1.Service
}

func (s snapshot) misplaced() (found []string) {
	for _, service := range s.services {
		if ofAPIServer(&service) {
			continue
		}
		for _, address := range inventory.ClusterIPs(&service) {
			where := netip.MustParseAddr(address)
			if owners := s.exclusiveTo(where); len(owners) > 0 && !slices.ContainsFunc(s.having(where), s.selecting(&service)) {
				found = append(found, fmt.Sprintf("%s/%s has %s of the exclusive range of %v", service.Namespace, service.Name, address, owners))
			}
			if owner, reserved := s.reservedFor(where); reserved && owner != service.Namespace+"/"+service.Name {
				found = append(found, fmt.Sprintf("%s/%s has %s which is reserved for %q", service.Namespace, service.Name, address, owner))
			}
		}
	}
	return found
}

// exclusiveTo returns the policies that have an address for themselves.
func (s snapshot) exclusiveTo(address netip.Addr) (names []string) {
	for _, policy := range s.having(address) {
		if policy.Spec.Exclusive {
			names = append(names, policy.Name)
		}
	}
	return names
}

// having returns the policies with a range that has the address.
func (s snapshot) having(address netip.Addr) (policies []v1alpha1.ServiceCIDRPolicy) {
	for _, policy := range s.policies {
		if slices.ContainsFunc(s.serviceCIDRs, func(c networkingv1.ServiceCIDR) bool { return lists(policy.Spec, c) && covers(c, address) }) {
			policies = append(policies, policy)
		}
	}
	return policies
}

func lists(spec v1alpha1.ServiceCIDRPolicySpec, c networkingv1.ServiceCIDR) bool {
	return slices.Contains(spec.ServiceCIDRs, c.Name) || spec.ServiceCIDRSelector != nil && matches(spec.ServiceCIDRSelector, c.Labels)
}

func covers(c networkingv1.ServiceCIDR, address netip.Addr) bool {
	return slices.ContainsFunc(c.Spec.CIDRs, func(cidr string) bool { return netip.MustParsePrefix(cidr).Contains(address) })
}

// selecting returns whether a policy selects the Service.
func (s snapshot) selecting(service *corev1.Service) func(v1alpha1.ServiceCIDRPolicy) bool {
	var ofNamespace map[string]string
	for _, namespace := range s.namespaces {
		if namespace.Name == service.Namespace {
			ofNamespace = namespace.Labels
		}
	}
	return func(policy v1alpha1.ServiceCIDRPolicy) bool {
		return matches(policy.Spec.NamespaceSelector, ofNamespace) && matches(policy.Spec.ServiceSelector, service.Labels)
	}
}

// matches reads a selector that is left out as one that selects all.
func matches(selector *metav1.LabelSelector, of map[string]string) bool {
	if selector == nil {
		return true
	}
	parsed, err := metav1.LabelSelectorAsSelector(selector)
	return err == nil && parsed.Matches(labels.Set(of))
}

// reservedFor returns for which Service an address is reserved: "" for none.
func (s snapshot) reservedFor(address netip.Addr) (owner string, reserved bool) {
	for _, policy := range s.policies {
		for _, reservation := range policy.Spec.Reservations {
			if within(reservation.Address, address) {
				return reservation.For, true
			}
		}
	}
	return "", false
}

// within reports whether an address, a range of addresses or a CIDR has the address.
func within(text string, address netip.Addr) bool {
	if prefix, err := netip.ParsePrefix(text); err == nil {
		return prefix.Contains(address)
	}
	first, last, ranged := strings.Cut(text, "-")
	if !ranged {
		last = first
	}
	from, to := netip.MustParseAddr(strings.TrimSpace(first)), netip.MustParseAddr(strings.TrimSpace(last))
	return from.Compare(address) <= 0 && address.Compare(to) <= 0 && from.Is4() == address.Is4()
}
