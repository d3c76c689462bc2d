package inventory

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
)

// Findings lists every breach of the relation between the cluster IPs of Services and the
// IPAddresses of the API server's allocator: one address, one Service, one IPAddress that names it
// and carries the allocator's labels. IPAddresses of other managers are no breach.
func Findings(ctx context.Context, access *framework.Access) ([]string, error) {
	services, err := access.Client().CoreV1().Services(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("listing Services: %w", err)
	}
	addresses, err := access.Networking().IPAddresses().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("listing IPAddresses: %w", err)
	}
	return findings(services.Items, addresses.Items), nil
}

func findings(services []corev1.Service, addresses []networkingv1.IPAddress) []string {
	var found []string
	holders := map[string][]string{}
	for _, s := range services {
		for _, address := range ClusterIPs(&s) {
			holders[address] = append(holders[address], s.Namespace+"/"+s.Name)
		}
	}
	for _, ip := range addresses {
		if ip.Labels[networkingv1.LabelManagedBy] != framework.ManagedByUpstream {
			continue
		}
		found = append(found, misplaced(&ip, holders[ip.Name])...)
	}
	named := map[string]bool{}
	for _, ip := range addresses {
		named[ip.Name] = true
	}
	for _, address := range slices.Sorted(maps.Keys(holders)) {
		if !named[address] {
			found = append(found, fmt.Sprintf("address %s of Service %v has no IPAddress", address, holders[address]))
		}
		if len(holders[address]) > 1 {
			found = append(found, fmt.Sprintf("address %s is held by the Services %v", address, holders[address]))
		}
	}
	return found
}

// misplaced says what is wrong with an IPAddress whose address the given Services hold.
func misplaced(ip *networkingv1.IPAddress, holders []string) (found []string) {
	parent := "nothing"
	if ref := ip.Spec.ParentRef; ref != nil {
		parent = ref.Namespace + "/" + ref.Name
	}
	switch {
	case len(holders) == 0:
		found = append(found, fmt.Sprintf("IPAddress %s names %s, but no Service holds the address", ip.Name, parent))
	case !slices.Contains(holders, parent):
		found = append(found, fmt.Sprintf("IPAddress %s names %s, but %v holds the address", ip.Name, parent, holders))
	}
	family := corev1.IPv4Protocol
	if netip.MustParseAddr(ip.Name).Is6() {
		family = corev1.IPv6Protocol
	}
	if got := ip.Labels[networkingv1.LabelIPAddressFamily]; got != string(family) {
		found = append(found, fmt.Sprintf("IPAddress %s has the family label %q", ip.Name, got))
	}
	return found
}

// ClusterIPs returns the addresses of a Service: none if it is headless or of type ExternalName.
func ClusterIPs(s *corev1.Service) []string {
	if s.Spec.Type == corev1.ServiceTypeExternalName {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(s.Spec.ClusterIPs), func(ip string) bool { return ip == corev1.ClusterIPNone })
}

// quiet is how long nothing may happen in a cluster that has settled.
const quiet = time.Second

// Settled waits until an API server has written all that it writes in the seconds after its start,
// and takes down what there is. No other client may write meanwhile.
func Settled(ctx context.Context, config *rest.Config) (Objects, error) {
	before, err := Everything(ctx, config)
	for err == nil {
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("waiting for the cluster to settle: %w", context.Cause(ctx))
		case <-time.After(quiet):
		}
		var after Objects
		if after, err = Everything(ctx, config); err == nil && len(before.Changes(after)) == 0 {
			return after, nil
		}
		before = after
	}
	return nil, err
}
