package upstream

import (
	"slices"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// fieldManager is how an API server signs what it writes itself.
const fieldManager = "kube-apiserver"

// CreatedByAPIServer reports whether an API server created the object, as one that allocates from ServiceCIDRs does with
// the default one. An API server that allocates from the bitmap creates none.
func CreatedByAPIServer(cidr *networkingv1.ServiceCIDR) bool {
	return slices.ContainsFunc(cidr.ManagedFields, func(f metav1.ManagedFieldsEntry) bool {
		return f.Manager == fieldManager && f.Operation == metav1.ManagedFieldsOperationUpdate && f.Subresource == ""
	})
}
