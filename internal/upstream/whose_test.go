package upstream

import (
	"testing"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
)

func TestWhoseAnIPAddressIs(t *testing.T) {
	service := &networkingv1.ParentReference{Resource: "services", Namespace: "n", Name: "s"}
	policy := &networkingv1.ParentReference{Group: v1alpha1.Prefix, Resource: "servicecidrpolicies", Name: "p"}
	written := func(by, purpose string, parent *networkingv1.ParentReference) *networkingv1.IPAddress {
		o := &networkingv1.IPAddress{Spec: networkingv1.IPAddressSpec{ParentRef: parent}}
		o.Labels = map[string]string{networkingv1.LabelManagedBy: by, v1alpha1.LabelPurpose: purpose}
		return o
	}
	leaving := func(o *networkingv1.IPAddress, finalizer string) *networkingv1.IPAddress {
		o.Finalizers, o.DeletionTimestamp = []string{finalizer}, &metav1.Time{Time: time.Unix(1, 0)}
		return o
	}
	for name, tc := range map[string]struct {
		object                                       *networkingv1.IPAddress
		apiServer, operator, ownedByIt, forNoService bool
	}{
		"a ClusterIP":                           {object: written(v1alpha1.ManagedByAPIServer, "", service), apiServer: true},
		"an additional address":                 {object: written(v1alpha1.ManagedByOperator, v1alpha1.PurposeAdditional, service), operator: true, ownedByIt: true},
		"a reservation":                         {object: written(v1alpha1.ManagedByOperator, v1alpha1.PurposeReservation, policy), operator: true, ownedByIt: true, forNoService: true},
		"a reservation without its labels":      {object: written("", "", policy), forNoService: true},
		"a reservation without a policy":        {object: written(v1alpha1.ManagedByOperator, v1alpha1.PurposeCooling, nil), operator: true, ownedByIt: true, forNoService: true},
		"the operator's, for no known purpose":  {object: written(v1alpha1.ManagedByOperator, "", nil), operator: true, ownedByIt: true},
		"a ClusterIP with a forged purpose":     {object: written(v1alpha1.ManagedByOperator, v1alpha1.PurposeCooling, service), operator: true, ownedByIt: true},
		"a former address":                      {object: leaving(written(v1alpha1.ManagedByAPIServer, "", service), v1alpha1.FinalizerFormer), apiServer: true, ownedByIt: true},
		"one that goes with another finalizer":  {object: leaving(written(v1alpha1.ManagedByAPIServer, "", service), "example.com/f"), apiServer: true},
		"another manager's":                     {object: written("example.com", "", service)},
		"one without labels that names nothing": {object: &networkingv1.IPAddress{}},
	} {
		t.Run(name, func(t *testing.T) {
			got := [...]bool{ManagedByAPIServer(tc.object), ManagedByOperator(tc.object), OwnedByOperator(tc.object), HeldForNoService(tc.object)}
			if want := [...]bool{tc.apiServer, tc.operator, tc.ownedByIt, tc.forNoService}; got != want {
				t.Errorf("managed by the API server, by the operator, owned by it, held for no Service: %v, want %v", got, want)
			}
		})
	}
}
