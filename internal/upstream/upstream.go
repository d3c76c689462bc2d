package upstream

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/version"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
)

// NewIPAddress returns the IPAddress that the API server would write for a Service's ClusterIP.
func NewIPAddress(a netip.Addr, service types.NamespacedName) *networkingv1.IPAddress {
	return &networkingv1.IPAddress{
		ObjectMeta: metav1.ObjectMeta{Name: a.String(), Labels: Labels(a)},
		Spec: networkingv1.IPAddressSpec{ParentRef: &networkingv1.ParentReference{
			Resource: "services", Namespace: service.Namespace, Name: service.Name,
		}},
	}
}

// Named returns an IPAddress by its name alone. As the related object of events it keeps client-go
// from taking those about two addresses of one Service for one, and dropping the second.
func Named(address string) *networkingv1.IPAddress {
	return &networkingv1.IPAddress{ObjectMeta: metav1.ObjectMeta{Name: address}}
}

// Labels are those of an IPAddress of the API server's allocator.
func Labels(a netip.Addr) map[string]string {
	return map[string]string{
		networkingv1.LabelIPAddressFamily: allocator.FamilyOf(a).String(),
		networkingv1.LabelManagedBy:       v1alpha1.ManagedByAPIServer,
	}
}

// Service returns the Service that is the parent of an IPAddress; zero without one.
func Service(o *networkingv1.IPAddress) types.NamespacedName {
	if ref := o.Spec.ParentRef; ref != nil && ref.Group == "" && ref.Resource == "services" {
		return types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}
	}
	return types.NamespacedName{}
}

// Policy returns the ServiceCIDRPolicy that is the parent of an IPAddress; empty without one.
func Policy(o *networkingv1.IPAddress) string {
	if ref := o.Spec.ParentRef; ref != nil && ref.Group == v1alpha1.Prefix && ref.Resource == "servicecidrpolicies" {
		return ref.Name
	}
	return ""
}

// Describe says for people whose an IPAddress is: its parent, and its manager.
func Describe(o *networkingv1.IPAddress) string {
	parent := "nothing"
	if ref := o.Spec.ParentRef; ref != nil {
		parent = ref.Resource + " " + strings.TrimPrefix(ref.Namespace+"/"+ref.Name, "/")
	}
	if Former(o) {
		return "additional IPAddress of " + parent + ", which had the address before it was renumbered"
	}
	return fmt.Sprintf("IPAddress of %s, managed by %q", parent, o.Labels[networkingv1.LabelManagedBy])
}

// How an API server signs what it writes itself: objects, and the default ServiceCIDR's status.
const (
	fieldManager       = "kube-apiserver"
	statusFieldManager = "kubernetes-service-cidr-controller"
)

// WrittenByAPIServer reports whether an API server wrote the object for itself. One that allocates
// from IPAddresses writes each of them and, before it is ready, the default ServiceCIDR: it creates
// that, or sets its condition Ready if it has none. One that uses the bitmap writes neither.
func WrittenByAPIServer(o metav1.Object) bool {
	return slices.ContainsFunc(o.GetManagedFields(), signed)
}

// Minor reads the minor version of Kubernetes 1; "32+" is how some vendors write it. A server that
// emulates an older version (KEP-4330) behaves like that one.
func Minor(v *version.Info) (minor int, ok bool) {
	if v == nil || v.Major != "1" {
		return 0, false
	}
	n, err := fmt.Sscanf(cmp.Or(v.EmulationMinor, v.Minor), "%d", &minor)
	return minor, n == 1 && err == nil
}

// FirstWithoutBitmap is the first minor version in which no API server allocates from the bitmap:
// the feature gate MultiCIDRServiceAllocator is locked.
const FirstWithoutBitmap = 34

// Disown gives what an API server wrote to another field manager, when API servers that do not know
// of it take over. A ServiceCIDR loses the condition Ready, so that an API server which allocates
// from it again says so anew.
func Disown(o metav1.Object, to string) {
	if c, ok := o.(*networkingv1.ServiceCIDR); ok {
		meta.RemoveStatusCondition(&c.Status.Conditions, networkingv1.ServiceCIDRConditionReady)
	}
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
