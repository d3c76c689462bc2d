package policyapi_test

import (
	"context"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
)

var _ = Describe("What the API server fills in", func() {
	It("is all that an admin left open", func(ctx SpecContext) {
		policy := draft(`{serviceCIDRs: [tenant-a]}`)
		Expect(admin.Create(ctx, policy)).To(Succeed())
		DeferCleanup(admin.Delete, policy)
		Expect(policy.Object["spec"]).To(Equal(map[string]any{
			"serviceCIDRs": []any{"tenant-a"}, "exclusive": false, "additionalAddresses": false, "allocation": "Automatic", "enforcement": "APIServer", "onFull": "Fallback", "priority": int64(0),
		}))
	})

	It("of growth, too", func(ctx SpecContext) {
		policy := draft(growing(supernets, ""))
		Expect(admin.Create(ctx, policy)).To(Succeed())
		DeferCleanup(admin.Delete, policy)
		growth := policy.Object["spec"].(map[string]any)["growth"].(map[string]any)
		delete(growth, "from")
		Expect(growth).To(Equal(map[string]any{"whenFreePercent": int64(20), "maxRanges": int64(8), "dryRun": false}))
	})

	It("is nothing where an admin decided", func(ctx SpecContext) {
		spec := v1alpha1.ServiceCIDRPolicySpec{
			ServiceCIDRs: []string{"tenant-a"}, Exclusive: true, Allocation: v1alpha1.AllocationByRequest, Enforcement: v1alpha1.EnforcementWebhook, OnFull: v1alpha1.OnFullFail, Priority: -1,
			CoolDown: &metav1.Duration{Duration: 90 * time.Minute},
			Reservations: []v1alpha1.Reservation{
				{Name: "four", Address: "10.96.0.10", For: "shop/cart"}, {Name: "six", Address: "fd00:10:96::a"},
			},
		}
		created(ctx, "decided", spec)
		Expect(c.Policy(ctx, "decided").Spec).To(Equal(spec))
	})

	// A duration that the schema takes and Go cannot read would keep clients from listing policies.
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

// applySample applies a file twice. All fields must be known, and the second time change nothing.
func applySample(ctx context.Context, file string) {
	GinkgoHelper()
	c.Kubectl(ctx, "apply", "--server-side", "--validate=strict", "-f", file)
	DeferCleanup(func(ctx SpecContext) { c.Kubectl(ctx, "delete", "--wait=false", "-f", file) })
	versions := func() []string {
		GinkgoHelper()
		return strings.Fields(c.Kubectl(ctx, "get", "-f", file, "-o", "jsonpath={..resourceVersion}"))
	}
	before := versions()
	Expect(before).NotTo(BeEmpty())
	c.Kubectl(ctx, "apply", "--server-side", "-f", file)
	Expect(versions()).To(Equal(before))
}

var _ = It("Each sample of a policy can be applied, again and again", Label("long"), func(ctx SpecContext) {
	files, err := filepath.Glob("../../../config/samples/servicecidrpolicy_*.yaml")
	Expect(err).NotTo(HaveOccurred())
	Expect(len(files)).To(BeNumerically(">=", 5))
	for _, file := range files {
		applySample(ctx, file)
	}
	Expect(len(c.AllPolicies(ctx))).To(BeNumerically(">=", len(files)))
})

// The rules are for API servers from 1.31 on, which would refuse a CRD with a newer CEL function.
var _ = It("An API server of Kubernetes 1.32 has the same rules", Label("all", "1.32"), func(ctx SpecContext) {
	old := start(ctx, framework.Options{Version: framework.V132}).Policies()
	Expect(propose(ctx, old, keep("10.96.0.9-10.96.0.10"))).To(Succeed())
	Expect(propose(ctx, old, keep("fd00:10:96::9-fd00:10:96::a"))).To(Succeed())
	Expect(propose(ctx, old, coolingFor("24h"))).To(Succeed())
	Expect(complaints(propose(ctx, old, keep("fd00:10:96::a-fd00:10:96::9")))).To(ConsistOf(HaveField("Message", ContainSubstring(sayLower))))
	Expect(complaints(propose(ctx, old, keep("10.96.0.1/24")))).To(ConsistOf(HaveField("Message", ContainSubstring(sayFirst))))
	Expect(complaints(propose(ctx, old, coolingFor("721h")))).To(ConsistOf(HaveField("Message", ContainSubstring(sayDuration))))
})
