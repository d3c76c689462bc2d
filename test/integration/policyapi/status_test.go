package policyapi_test

import (
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
)

var _ = Describe("The status", func() {
	programmed := func() v1alpha1.ServiceCIDRPolicyStatus {
		return v1alpha1.ServiceCIDRPolicyStatus{
			ObservedGeneration: 1, Conditions: []metav1.Condition{condition(v1alpha1.PolicyProgrammed, metav1.ConditionTrue)},
		}
	}

	It("cannot be brought along by those who write the spec", func(ctx SpecContext) {
		policy := &v1alpha1.ServiceCIDRPolicy{ObjectMeta: metav1.ObjectMeta{Name: "boast"}, Status: programmed()}
		Expect(admin.Create(ctx, policy)).To(Succeed())
		DeferCleanup(admin.Delete, policy)
		policy.Status = programmed()
		Expect(admin.Update(ctx, policy)).To(Succeed())
		Expect(c.Policy(ctx, "boast").Status).To(BeZero())
	})

	It("remembers ten refusals and no eleventh", func(ctx SpecContext) {
		policy := created(ctx, "refusals", v1alpha1.ServiceCIDRPolicySpec{})
		for i := range 10 {
			policy.Status.Refusals = append(policy.Status.Refusals, v1alpha1.PolicyRefusal{
				Time: metav1.NowMicro(), Service: fmt.Sprintf("shop/cart-%d", i), Message: "full",
			})
		}
		Expect(admin.Status().Update(ctx, policy)).To(Succeed())
		policy.Status.Refusals = append(policy.Status.Refusals, policy.Status.Refusals[0])
		wrong := complaints(admin.Status().Update(ctx, policy))
		Expect(wrong).To(ConsistOf(HaveField("Field", "status.refusals")))
	})

	// The loops write conditions and counts, the webhook refusals: each keeps what the other writes.
	It("is shared by writers that apply their parts", func(ctx SpecContext) {
		created(ctx, "shared", v1alpha1.ServiceCIDRPolicySpec{})
		part := func(status string, manager client.FieldOwner) {
			GinkgoHelper()
			policy := draft(status)
			policy.SetName("shared")
			policy.Object["status"] = policy.Object["spec"]
			delete(policy.Object, "spec")
			Expect(admin.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(policy), manager)).To(Succeed())
		}
		part(`{refusals: [{time: "2026-01-01T00:00:00.000000Z", service: shop/cart, message: full}]}`, v1alpha1.ManagerAdmission)
		part(`{observedGeneration: 1, ranges: [{serviceCIDR: a, cidr: "fd00:10:96::/112", dynamic: {size: 1, used: 1, free: 0, cooling: 0,
			reserved: 0}, static: {size: 1, used: 1, free: 0, cooling: 0, reserved: 0}}]}`, v1alpha1.ManagerPolicy)
		got := c.Policy(ctx, "shared").Status
		Expect(got.Refusals).To(HaveLen(1))
		Expect(got.Ranges).To(HaveLen(1))
	})
})
