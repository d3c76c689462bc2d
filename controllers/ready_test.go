package controllers_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
)

var _ = Describe("The condition Ready of a ServiceCIDRPolicy", func() {
	expect := func(ctx SpecContext, policy, reason string, words ...string) {
		GinkgoHelper()
		for _, kind := range []string{v1alpha1.PolicyProgrammed, v1alpha1.PolicyReady} {
			for _, text := range words {
				say(ctx, policy, kind, metav1.ConditionFalse, reason, text)
			}
		}
	}

	It("is False, as Programmed is, while a Service has a reserved address, or a better policy a range", func(ctx SpecContext) {
		sits := create(ctx, dual("sits", framework.WithClusterIPs("10.96.0.231", "fd00:10:96::e7")))
		create(ctx, framework.NewServiceCIDR("ready-mine", "10.94.8.0/28", "fd00:10:94:8::/124"))
		create(ctx, framework.NewServiceCIDR("ready-theirs", "10.94.9.0/28", "fd00:10:94:9::/124"))
		better := programmed(ctx, "ready-better", v1alpha1.ServiceCIDRPolicySpec{
			ServiceCIDRs: []string{"ready-theirs"}, Exclusive: true, Priority: 9, Enforcement: v1alpha1.EnforcementWebhook,
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"nobody": "has"}},
		})
		say(ctx, "ready-better", v1alpha1.PolicyReady, metav1.ConditionTrue, "Ready", "")
		create(ctx, &v1alpha1.ServiceCIDRPolicy{ObjectMeta: metav1.ObjectMeta{Name: "ready-outranked"}, Spec: v1alpha1.ServiceCIDRPolicySpec{
			ServiceCIDRs: []string{"ready-mine", "ready-theirs"}, ServiceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"nobody": "has"}},
		}})
		create(ctx, &v1alpha1.ServiceCIDRPolicy{ObjectMeta: metav1.ObjectMeta{Name: "ready-late"}, Spec: v1alpha1.ServiceCIDRPolicySpec{
			Reservations: []v1alpha1.Reservation{{Name: "four", Address: "10.96.0.231"}, {Name: "six", Address: "fd00:10:96::e7"}},
		}})
		expect(ctx, "ready-outranked", "Outranked", `ServiceCIDRPolicy "ready-better" has 10.94.9.0/28 for itself`, `ServiceCIDRPolicy "ready-better" has fd00:10:94:9::/124 for itself`)
		expect(ctx, "ready-late", "ReservationsNotInPlace", "10.96.0.231 of four (Service default/sits has it)", "fd00:10:96::e7 of six (Service default/sits has it)")

		Expect(admin.Delete(ctx, better)).To(Succeed())
		Expect(admin.Delete(ctx, sits)).To(Succeed())
		for _, policy := range []string{"ready-outranked", "ready-late"} {
			say(ctx, policy, v1alpha1.PolicyReady, metav1.ConditionTrue, "Ready", "")
		}
	})

	It("waits for what the API server itself is to keep", func(ctx SpecContext) {
		create(ctx, framework.NewServiceCIDR("ready-closed", "10.94.10.0/28", "fd00:10:94:10::/124"))
		programmed(ctx, "ready-closed", v1alpha1.ServiceCIDRPolicySpec{
			ServiceCIDRs: []string{"ready-closed"}, Exclusive: true, NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"nobody": "has"}},
		})
		say(ctx, "ready-closed", v1alpha1.PolicyReady, metav1.ConditionFalse, "PolicyMissing", "ValidatingAdmissionPolicy")
	})
})
