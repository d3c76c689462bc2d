package upstream

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// How an API server signs what it writes itself: objects, and the status of the default ServiceCIDR.
const (
	fieldManager       = "kube-apiserver"
	statusFieldManager = "kubernetes-service-cidr-controller"
)

// WrittenByAPIServer reports whether an API server wrote the object for itself, as one that allocates from IPAddresses does with
// the default ServiceCIDR and with each IPAddress. An API server that allocates from the bitmap writes neither.
func WrittenByAPIServer(o metav1.Object) bool {
	return slices.ContainsFunc(o.GetManagedFields(), signed)
}

// Disown gives what an API server wrote to another field manager, when API servers that do not know of it take over.
func Disown(o metav1.Object, to string) {
	fields := o.GetManagedFields()
	for i := range fields {
		if signed(fields[i]) {
			fields[i].Manager = to
		}
	}
	o.SetManagedFields(fields)
}

func signed(f metav1.ManagedFieldsEntry) bool {
	return f.Manager == fieldManager && f.Operation == metav1.ManagedFieldsOperationUpdate && f.Subresource == "" ||
		f.Manager == statusFieldManager && f.Subresource == "status"
}
