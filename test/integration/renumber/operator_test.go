package renumber_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
)

var _ = Describe("kubectl clusterip renumber, beside the operator", Label("all"), func() {
	It("asks its policies, and is not disturbed by it, nor when it is killed", Label("long"), func(ctx SpecContext) {
		alone := c
		c = cluster.Start(ctx, cluster.Options{
			Options: framework.Options{ServiceClusterIPRange: "10.96.0.0/24,fd00:10:96::/120"}, Installed: true, Replicas: 1,
		})
		DeferCleanup(func() { c = alone })
		namespace, before := several(ctx, 16)
		offer(ctx)
		c.Program(ctx, "others", "{serviceCIDRs: [new], namespaceSelector: {matchLabels: {team: others}}, exclusive: true}")
		file, result := plan(ctx, namespace)
		Expect(result.ExitCode).To(Equal(1), result.String())
		Expect(result.Stdout).To(ContainSubstring("0 Services would be moved, 16 are left out"))
		Expect(renumber(ctx, "plan", "-n", namespace, "--range=kubernetes", "--to=new").Stdout).To(ContainSubstring("others"))
		succeed(ctx, append([]string{"run", "--from", file}, quick...)...) // of no Service
		expectWhole(ctx, "old", before)
		c.DropPolicy(ctx, "others")

		file, result = plan(ctx, namespace)
		Expect(result.ExitCode).To(BeZero(), result.String())
		p, third := newProxy(), make(chan struct{})
		p.watch(nil, func(n int) {
			if n == 3 { // between the two updates of a Service
				close(third)
			}
		})
		plugin := p.start(ctx, append([]string{"run", "--from", file, "--workers=2", "--qps=2"}, quick...)...)
		Eventually(third).Should(BeClosed())
		Expect(c.Operator.Kill()).To(Succeed())
		c.StartReplicas(ctx) // leads when the Lease of the one before is over, in the midst of the rest
		code, printed := wait(ctx, plugin)
		Expect(code).To(BeZero(), printed)
		expectWhole(ctx, "new", before)
		succeed(ctx, append([]string{"rollback", "--from", file}, quick...)...)
		expectWhole(ctx, "old", before)
		Expect(c.Events(ctx).Ours().Warnings()).To(BeEmpty())
	})
})
