package inspect

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
)

// Policies come in the order of their names, and the question is what happened last.
func TestRefusalsAmongPoliciesAreOfTheNameAndLatestFirst(t *testing.T) {
	refusal := func(service string, count int64, minute int) v1alpha1.PolicyRefusal {
		return v1alpha1.PolicyRefusal{Service: service, Count: count, Time: metav1.NewMicroTime(time.Unix(0, 0).Add(time.Duration(minute) * time.Minute))}
	}
	policy := func(name string, refusals ...v1alpha1.PolicyRefusal) v1alpha1.ServiceCIDRPolicy {
		return v1alpha1.ServiceCIDRPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: v1alpha1.ServiceCIDRPolicyStatus{Refusals: refusals}}
	}
	policies := []v1alpha1.ServiceCIDRPolicy{
		policy("a", refusal("shop/web", 1, 3), refusal("shop/db", 1, 9), refusal("shop-2/web", 7, 8)),
		policy("b", refusal("shop/web", 1, 5), refusal("shop/cart", 4, 1)),
	}
	for of, want := range map[string][]pastRefusal{
		"shop/web":   {{"b", refusal("shop/web", 1, 5)}, {"a", refusal("shop/web", 1, 3)}, {"b", refusal("shop/cart", 4, 1)}},
		"shop/":      {{"a", refusal("shop/db", 1, 9)}, {"b", refusal("shop/web", 1, 5)}, {"a", refusal("shop/web", 1, 3)}, {"b", refusal("shop/cart", 4, 1)}},
		"shop-2/api": {{"a", refusal("shop-2/web", 7, 8)}},
		"sho/":       nil,
	} {
		if diff := cmp.Diff(want, refusalsAmong(policies, of)); diff != "" {
			t.Errorf("refusals of %s: %s", of, diff)
		}
	}
}
