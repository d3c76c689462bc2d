package renumber_test

import (
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
)

// The command promises nothing of kube-proxy while a Service is of type ExternalName: see
// docs/reference/benchmarks.md.
var _ = Describe("With kube-proxy and --keep=externalIPs", Label("soak"), func() {
	It("moves Services there and back, and says what got lost", func(ctx SpecContext) {
		env := open(ctx, "")
		env.makePlan(ctx, "externalIPs")
		proxy, err := cluster.StartKubeProxy(ctx, framework.KubeProxyOptions{Namespace: env.Node, Node: env.Name})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func() error { return proxy.Stop() })
		all := env.use(ctx)
		env.complete(ctx, env.start(ctx, "run"))
		env.sameBut(ctx, to...)
		all.goesOn()
		env.complete(ctx, env.start(ctx, "rollback"))
		env.sameBut(ctx, from...)
		all.goesOn()
		var lines []string
		for _, kind := range allKinds {
			_, losses := all[kind].Count()
			lines = append(append(lines, all.counted(kind)), losses[:min(3, len(losses))]...)
		}
		AddReportEntry("what got lost with kube-proxy in iptables mode", ReportEntryVisibilityAlways, strings.Join(lines, "\n"))
		Expect(env.held(ctx)).NotTo(BeEmpty())
		env.drained(ctx, env.drain(ctx, "rollback", "--drain=1ms"), nil)
	})
})
