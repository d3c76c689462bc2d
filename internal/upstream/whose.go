package upstream

import (
	"slices"

	networkingv1 "k8s.io/api/networking/v1"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
)

// Whose an IPAddress is decides what is deleted, so each answer has one name and is given here.
// Labels and finalizers may be edited by every user who may write IPAddresses; spec.parentRef is
// immutable.

// ManagedByAPIServer reports whether the label says that the API server's allocator wrote it.
func ManagedByAPIServer(o *networkingv1.IPAddress) bool {
	return o.Labels[networkingv1.LabelManagedBy] == v1alpha1.ManagedByAPIServer
}

// ManagedByOperator reports whether the label says that the operator wrote it.
func ManagedByOperator(o *networkingv1.IPAddress) bool {
	return o.Labels[networkingv1.LabelManagedBy] == v1alpha1.ManagedByOperator
}

// OwnedByOperator reports whether the operator has to look after an IPAddress: one that it wrote,
// or one of a former address, which is an additional one of its Service as soon as the API server
// has let go of it. Its labels come later or never.
func OwnedByOperator(o *networkingv1.IPAddress) bool { return ManagedByOperator(o) || Former(o) }

// HeldForNoService reports whether the operator keeps an address from all Services: it is reserved,
// or cools down. An IPAddress that names a Service is that Service's, whatever its labels say.
func HeldForNoService(o *networkingv1.IPAddress) bool {
	labelled := ManagedByOperator(o) && o.Labels[v1alpha1.LabelPurpose] != ""
	return Policy(o) != "" || labelled && Service(o).Name == ""
}

// HeldAsFormer reports whether renumbering holds the address once the API server lets go of it.
func HeldAsFormer(o *networkingv1.IPAddress) bool {
	return slices.Contains(o.Finalizers, v1alpha1.FinalizerFormer) && Service(o).Name != ""
}

// Former reports whether the API server has let go of an address that renumbering holds. The labels
// of the IPAddress say only how far renumbering is.
func Former(o *networkingv1.IPAddress) bool { return HeldAsFormer(o) && !o.DeletionTimestamp.IsZero() }
