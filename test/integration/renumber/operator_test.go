package renumber_test

import (
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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

	It("has second Services keep old addresses, there and back, undisturbed by its repair and its webhooks", Label("long"), func(ctx SpecContext) {
		alone := c
		c = cluster.Start(ctx, cluster.Options{
			Options: framework.Options{ServiceClusterIPRange: "10.96.0.0/24,fd00:10:96::/120", FeatureGates: framework.WithoutDualWrite}, Installed: true, Replicas: 1,
		})
		DeferCleanup(func() { c = alone })
		namespace := newNamespace(ctx)
		var before []*corev1.Service
		for i := range 6 {
			before = append(before, create(ctx, framework.NewService(namespace, fmt.Sprint("s", i), framework.PreferDualStack(), selecting)))
		}
		offer(ctx)
		file, result := plan(ctx, namespace, bySecond)
		Expect(result.ExitCode).To(BeZero(), result.String())
		for _, verb := range []string{"run", "rollback", "run"} {
			result := renumber(ctx, verb, "--from", file, "--wait=false")
			Expect(result.ExitCode).To(Equal(1), result.String())
			Expect(result.Stdout).To(ContainSubstring("6 of 6 Services have the addresses of the plan, 0 were left as they are"))
			Expect(secondsIn(ctx, namespace)).To(HaveLen(12))
			expectHandedOver(ctx)
		}
		for a := range secondsIn(ctx, namespace) {
			err := c.Networking().IPAddresses().Delete(ctx, a, metav1.DeleteOptions{})
			Expect(err).To(MatchError(ContainSubstring("which is in use")), "the webhook guards it like any other")
		}
		succeed(ctx, runOf(file)...)
		expectWhole(ctx, "new", before)
		expectHandedOver(ctx)
	})
})
