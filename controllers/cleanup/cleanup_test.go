package cleanup

import (
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
)

// A writer of IPAddresses may have labelled that of a ClusterIP as the operator's.
func TestOfClusterIP(t *testing.T) {
	service := &networkingv1.ParentReference{Resource: "services", Namespace: "ns", Name: "shop"}
	policy := &networkingv1.ParentReference{Group: v1alpha1.GroupVersion.Group, Resource: "servicecidrpolicies", Name: "p"}
	for name, tc := range map[string]struct {
		parent  *networkingv1.ParentReference
		purpose string
		want    bool
	}{
		"a ClusterIP without a purpose":   {service, "", true},
		"a ClusterIP as a reservation":    {service, v1alpha1.PurposeReservation, true},
		"a ClusterIP as a cooling one":    {service, v1alpha1.PurposeCooling, true},
		"an additional address":           {service, v1alpha1.PurposeAdditional, false},
		"a reservation":                   {policy, v1alpha1.PurposeReservation, false},
		"a cooling address of the policy": {policy, v1alpha1.PurposeCooling, false},
	} {
		ip := &networkingv1.IPAddress{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{v1alpha1.LabelPurpose: tc.purpose}}}
		ip.Spec.ParentRef = tc.parent
		if got := ofClusterIP(ip); got != tc.want {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}
