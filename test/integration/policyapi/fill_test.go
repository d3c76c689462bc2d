package policyapi_test

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
)

var _ = Describe("What the API server fills in", func() {
	It("is all that an admin left open", func(ctx SpecContext) {
		policy := draft(`{serviceCIDRs: [tenant-a]}`)
		Expect(admin.Create(ctx, policy)).To(Succeed())
		DeferCleanup(admin.Delete, policy)
		Expect(policy.Object["spec"]).To(Equal(map[string]any{
			"serviceCIDRs": []any{"tenant-a"}, "exclusive": false, "enforcement": "Webhook", "onFull": "Fallback", "priority": int64(0),
		}))
	})

	It("is nothing where an admin decided", func(ctx SpecContext) {
		spec := v1alpha1.ServiceCIDRPolicySpec{
			ServiceCIDRs: []string{"tenant-a"}, Exclusive: true, Enforcement: v1alpha1.EnforcementAPIServer, OnFull: v1alpha1.OnFullFail, Priority: -1,
			CoolDown: &metav1.Duration{Duration: 90 * time.Minute},
			Reservations: []v1alpha1.Reservation{
				{Name: "four", Address: "10.96.0.10", For: "shop/cart"}, {Name: "six", Address: "fd00:10:96::a"},
			},
		}
		created(ctx, "decided", spec)
		Expect(c.Policy(ctx, "decided").Spec).To(Equal(spec))
	})

	// A duration that the schema lets through and Go cannot read would keep every client from listing the policies.
	DescribeTable("is readable again: a cool-down",
		func(ctx SpecContext, written string, meant time.Duration) {
			policy := draft(coolingFor(written))
			Expect(admin.Create(ctx, policy)).To(Succeed())
			DeferCleanup(admin.Delete, policy)
			Expect(c.Policy(ctx, "draft").Spec.CoolDown.Duration).To(Equal(meant))
		},
		Entry("of nothing", "0s", time.Duration(0)),
		Entry("of a day", "24h", 24*time.Hour),
		Entry("with all units", "1h1m1s1ms", time.Hour+time.Minute+time.Second+time.Millisecond),
		Entry("with fractions", "0.000001h0.5m1.5s0.000001ms", 3600*time.Microsecond+30*time.Second+1500*time.Millisecond+time.Nanosecond),
		Entry("with many digits", "00000.000000000m2592000s", 30*24*time.Hour),
	)
})
