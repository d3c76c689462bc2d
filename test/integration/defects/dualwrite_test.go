package defects_test

import (
	"fmt"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
)

// How a 1.33 API server treats the operator's IPAddresses while no webhook answers: see the limits
// in docs/steering.md. It repairs no bitmap: only `migrate run --repair-bitmap` clears a false bit.
var _ = Describe("The bitmap that Kubernetes 1.33 keeps beside the IPAddresses", Label("soak"), Ordered, func() {
	var c *cluster.Cluster
	ours := []string{"10.97.0.2", "10.97.0.5", "10.97.0.6", "10.97.0.11"}

	BeforeAll(func(ctx SpecContext) {
		c = cluster.Start(ctx, cluster.Options{WithoutOperator: true, Options: framework.Options{
			Version: framework.V133, ServiceClusterIPRange: "10.97.0.0/28",
		}})
		for _, address := range ours {
			c.CreateIPAddress(ctx, framework.NewIPAddress(address, "default", "nobody", framework.ManagedBy(cluster.ManagedByUs)))
		}
	})

	It("costs one creation for each address of ours that is drawn from it", func(ctx SpecContext) {
		refused := 0
		for n := 0; ; n++ {
			_, err := c.TryService(ctx, fmt.Sprintf("web-%d", n))
			if err != nil && strings.Contains(err.Error(), "range is full") {
				break
			}
			if err != nil {
				Expect(err).To(MatchError(ContainSubstring("provided IP is already allocated")))
				refused++
			}
		}
		Expect(refused).To(Equal(len(ours)))
	})

	It("keeps such an address from everybody when it is free, until it is repaired", func(ctx SpecContext) {
		for _, address := range ours {
			c.DeleteIPAddress(ctx, address)
		}
		_, err := c.TryService(ctx, "late", framework.WithClusterIPs(ours[0]))
		Expect(err).To(MatchError(ContainSubstring("provided IP is already allocated")))
		result, err := c.RunPlugin(ctx, framework.PluginOptions{
			Race: true, Args: slices.Concat([]string{"migrate", "run", "--repair-bitmap", "--leak-grace=1s"}, c.EtcdArgs()),
		})
		Expect(err).NotTo(HaveOccurred())
		Expect(result.ExitCode).To(BeZero(), result.String())
		Expect(c.CreateService(ctx, "late", framework.WithClusterIPs(ours[0])).Spec.ClusterIP).To(Equal(ours[0]))
	})
})
