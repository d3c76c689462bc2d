package deployment_test

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
	"github.com/clusterip-operator/clusterip-operator/test/integration/inventory"
)

// An admin applies the manifests again and again, or lets a GitOps tool do so. Each time that moves an object rolls something
// out, or wakes somebody.
var _ = Describe("Applying a second time", func() {
	settled := func(ctx context.Context) inventory.Objects {
		GinkgoHelper()
		ctx, cancel := context.WithTimeout(ctx, cluster.Patience)
		defer cancel()
		objects, err := inventory.Settled(ctx, c.AdminConfig())
		Expect(err).NotTo(HaveOccurred())
		return objects
	}

	It("changes nothing of config/default", func(ctx SpecContext) {
		before := settled(ctx)
		Expect(before.Get("deployments.apps", namespace, managerAccount)).NotTo(BeNil())
		install(ctx, c, defaults)
		Expect(before.Changes(settled(ctx))).To(BeEmpty())
	})

	// The ranges of the samples need a moment to become known to the API server, and then their fixed addresses are taken.
	It("changes nothing of config/samples", func(ctx SpecContext) {
		samples := folder + "/samples"
		Eventually(func() error {
			_, err := framework.Kubectl(ctx, c.Kubeconfig(), "apply", "--server-side", "-k", samples)
			return err
		}).WithTimeout(cluster.Patience).WithPolling(time.Second).Should(Succeed())
		before := settled(ctx)
		for _, sample := range render(ctx, samples) {
			if sample.GetKind() == "Service" {
				Expect(c.IPAddresses(ctx)).To(ContainElement(HaveField("Spec.ParentRef.Name", sample.GetName())))
			}
		}
		install(ctx, c, samples)
		Expect(before.Changes(settled(ctx))).To(BeEmpty())
	})
})
