//go:build linux

package cleanup_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	"github.com/clusterip-operator/clusterip-operator/test/e2e/internal/ruleset"
	"github.com/clusterip-operator/clusterip-operator/test/e2e/internal/stage"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
)

// startKubeProxy starts kube-proxy; who takes its rules away is up to the spec.
func (w *world) startKubeProxy(ctx context.Context, kind string) *framework.KubeProxy {
	GinkgoHelper()
	proxy, err := w.Cluster.StartKubeProxy(ctx, framework.KubeProxyOptions{Namespace: w.Node, Node: w.Name, Mode: kind, Variant: w.Mode})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(proxy.Kill)
	return proxy
}

// startBeside starts our agent where kube-proxy has the usual ports, and does not wait for it.
func (w *world) startBeside(ctx context.Context, args ...string) {
	GinkgoHelper()
	w.Options.NoWait = true
	w.StartAgent(ctx, append([]string{"--metrics-bind-address=127.0.0.1:20249", "--healthz-bind-address=127.0.0.1:20256"}, args...)...)
}

var _ = Describe("A node that goes from kube-proxy to the agent and back", func() {
	DescribeTable("loses no connection and keeps no trace", func(ctx SpecContext, mode, kind string) {
		w := open(ctx, mode)
		proxy := w.startKubeProxy(ctx, kind)
		w.Served(w.web)
		traffic := w.Traffic(ctx, w.web)

		By("to the agent")
		w.startBeside(ctx)
		w.serves(ctx, w.served, w.web, true)
		traffic.Flows()
		Expect(proxy.Stop()).To(Succeed())
		w.cleanup(ctx, "--kube-proxy")
		Expect(w.before.Without(ruleset.Agent).Without(kubelet).Diff(w.Rules(ctx).Without(ruleset.Agent).Without(kubelet))).To(BeEmpty())
		traffic.Flows()

		By("and back")
		proxy = w.startKubeProxy(ctx, kind)
		w.serves(ctx, map[string]func(context.Context) ruleset.Snapshot{"iptables": w.kubes, "nftables": w.native}[kind], w.web, true)
		traffic.Flows()
		Expect(w.Agent.Stop()).To(Succeed())
		w.cleanup(ctx)
		Expect(w.ours(ctx)).To(BeEmpty())
		traffic.LostNothing()

		Expect(proxy.Stop()).To(Succeed())
		w.cleanup(ctx, "--kube-proxy")
		Expect(w.before.Without(kubelet).Diff(w.Rules(ctx).Without(kubelet))).To(BeEmpty())
	},
		Entry("iptables mode, nft", Label("all"), "nft", "iptables"),
		Entry("iptables mode, legacy", Label("soak"), "legacy", "iptables"),
		Entry("nftables mode", Label("soak"), "nft", "nftables"),
	)
})

var _ = Describe("An agent that changes the variant of iptables", func() {
	It("loses no connection on the way there and back, and leaves nothing in the other one", func(ctx SpecContext) {
		w := open(ctx, "nft")
		w.StartAgent(ctx)
		w.Served(w.web)
		traffic := w.Traffic(ctx, w.web)
		first := w.ours(ctx)
		for _, mode := range []string{"legacy", "nft"} {
			Expect(w.Agent.Stop()).To(Succeed())
			w.Options.Mode = mode
			w.StartAgent(ctx)
			Eventually(func() ruleset.Snapshot { return w.ours(ctx) }).WithTimeout(stage.Soon).Should(And(HaveLen(3),
				HaveKey("iptables-"+mode+"-save"), HaveKey("ip6tables-"+mode+"-save"), HaveKey("ipset")))
			traffic.Flows()
		}
		Eventually(func() string { return first.Diff(w.ours(ctx)) }).WithTimeout(stage.Soon).Should(BeEmpty())
		traffic.LostNothing()
		Expect(w.Agent.Stop()).To(Succeed())
		w.cleanup(ctx)
		w.clean(ctx)
	})
})

var _ = Describe("An agent beside kube-proxy", func() {
	const label, name = "service.kubernetes.io/service-proxy-name", "clusterip-operator"

	DescribeTable("serves the Services with its name, which kube-proxy does not", func(ctx SpecContext, mode, kind string) {
		w := open(ctx, mode)
		ours := w.Serve(ctx, "ours", w.servers(), framework.WithLabel(label, name))
		foreign := w.Serve(ctx, "of-a-third", w.servers(), framework.WithLabel(label, "third"))
		w.startKubeProxy(ctx, kind)
		w.startBeside(ctx, "--service-proxy-name="+name)
		w.Served(w.web)
		traffic := w.Traffic(ctx, w.web)
		w.serves(ctx, w.served, ours, true)
		w.Served(ours)
		w.serves(ctx, w.served, w.web, false)
		w.serves(ctx, w.served, foreign, false)

		By("moving one that is in use")
		moving := w.Serve(ctx, "moving", w.servers())
		w.Served(moving)
		for range 2 {
			w.Update(ctx, moving.Name, func(s *corev1.Service) { s.Labels = map[string]string{label: name} })
			w.serves(ctx, w.served, moving, true)
			w.serves(ctx, w.kubes, moving, false)
			w.Served(moving)
			w.Update(ctx, moving.Name, func(s *corev1.Service) { s.Labels = nil })
			w.serves(ctx, w.served, moving, false)
			w.Served(moving)
		}
		w.serves(ctx, w.served, w.web, false)
		traffic.LostNothing()
	},
		Entry("iptables mode, nft", Label("all"), "nft", "iptables"),
		Entry("iptables mode, legacy", Label("soak"), "legacy", "iptables"),
		Entry("nftables mode", Label("soak"), "nft", "nftables"),
	)
})

// native are the rules of kube-proxy in its mode nftables, none as long as there is no table.
func (w *world) native(ctx context.Context) ruleset.Snapshot {
	rules := ruleset.Snapshot{}
	for _, family := range []string{"ip", "ip6"} {
		rules[family], _ = w.Node.Run(ctx, "nft", "list", "table", family, "kube-proxy")
	}
	return rules
}

// served are the rules of ours that serve something: an address may be in a set of those that are allocated.
func (w *world) served(ctx context.Context) ruleset.Snapshot {
	rules := w.ours(ctx)
	delete(rules, "ipset")
	return rules
}
