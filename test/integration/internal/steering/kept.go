package steering

import (
	"context"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	networkingv1 "k8s.io/api/networking/v1"
)

// Names as users see them, written out as those of package cluster are.
const (
	// PurposeLabel tells what an IPAddress of ours is for.
	PurposeLabel = "clusterip-operator.io/purpose"
	// ManagedByUs is the managed-by label of these.
	ManagedByUs = "clusterip-operator.io"

	// Reservation, Cooling and Additional are the purposes.
	Reservation = "reservation"
	Cooling     = "cooling"
	Additional  = "additional"
)

// Ours returns the IPAddresses that the operator keeps for itself, in the order of their names.
func (b *Bed) Ours(ctx context.Context) []networkingv1.IPAddress {
	GinkgoHelper()
	return slices.DeleteFunc(b.IPAddresses(ctx), func(ip networkingv1.IPAddress) bool {
		return ip.Labels[networkingv1.LabelManagedBy] != ManagedByUs
	})
}

// Kept returns the addresses that the operator keeps for a purpose.
func (b *Bed) Kept(ctx context.Context, purpose string) (addresses []string) {
	GinkgoHelper()
	for _, ip := range b.Ours(ctx) {
		if ip.Labels[PurposeLabel] == purpose {
			addresses = append(addresses, ip.Name)
		}
	}
	return addresses
}

// KeptBy returns the addresses that the operator keeps for a policy.
func (b *Bed) KeptBy(ctx context.Context, policy string) (addresses []string) {
	GinkgoHelper()
	for _, ip := range b.Ours(ctx) {
		if parent := ip.Spec.ParentRef; parent != nil && parent.Resource == "servicecidrpolicies" && parent.Name == policy {
			addresses = append(addresses, ip.Name)
		}
	}
	return addresses
}

// Purpose returns what an address is kept for, empty if the operator does not keep it.
func (b *Bed) Purpose(ctx context.Context, address string) string {
	GinkgoHelper()
	labels := b.Labels(ctx, address)
	if labels[networkingv1.LabelManagedBy] != ManagedByUs {
		return ""
	}
	return labels[PurposeLabel]
}
