package policyapi_test

import (
	"context"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
)

// applySample applies a file twice and wants the API server to know every field of it, and the second time to change nothing.
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

var _ = It("Each sample of a policy can be applied, again and again", func(ctx SpecContext) {
	files, err := filepath.Glob("../../../config/samples/servicecidrpolicy_*.yaml")
	Expect(err).NotTo(HaveOccurred())
	Expect(len(files)).To(BeNumerically(">=", 5))
	for _, file := range files {
		applySample(ctx, file)
	}
	Expect(len(c.AllPolicies(ctx))).To(BeNumerically(">=", len(files)))
})

// The rules are written for API servers from 1.31 on: a function that came later would keep them from taking the definition.
var _ = It("An API server of Kubernetes 1.32 has the same rules", Label("all"), func(ctx SpecContext) {
	old := start(ctx, framework.Options{Version: framework.V132}).Policies()
	Expect(propose(ctx, old, keep("10.96.0.9-10.96.0.10"))).To(Succeed())
	Expect(propose(ctx, old, keep("fd00:10:96::9-fd00:10:96::a"))).To(Succeed())
	Expect(propose(ctx, old, coolingFor("24h"))).To(Succeed())
	Expect(complaints(propose(ctx, old, keep("fd00:10:96::a-fd00:10:96::9")))).To(ConsistOf(HaveField("Message", ContainSubstring(sayLower))))
	Expect(complaints(propose(ctx, old, keep("10.96.0.1/24")))).To(ConsistOf(HaveField("Message", ContainSubstring(sayFirst))))
	Expect(complaints(propose(ctx, old, coolingFor("721h")))).To(ConsistOf(HaveField("Message", ContainSubstring(sayDuration))))
})
