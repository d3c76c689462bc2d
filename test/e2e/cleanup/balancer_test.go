package cleanup_test

import (
	"context"
	"net/netip"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"

	"github.com/clusterip-operator/clusterip-operator/test/e2e/internal/environment"
	"github.com/clusterip-operator/clusterip-operator/test/e2e/internal/ruleset"
	"github.com/clusterip-operator/clusterip-operator/test/framework/network"
)

// openBalanced is open, in a machine that has IPVS, with virtual servers of others.
func openBalanced(ctx context.Context) *fixture {
	GinkgoHelper()
	env := open(ctx, "nft")
	env.Options.Race = false
	env.PlantVirtualServers()
	env.before = env.Rules(ctx)
	return env
}

// newConnections are all that come to one Service, without any that stay.
func (env *fixture) newConnections() *environment.Traffic {
	GinkgoHelper()
	traffic := environment.NewTraffic()
	for _, f := range network.Families {
		for _, from := range []*network.Namespace{env.Pod1, env.Node, env.Client} {
			traffic.Connect(from, environment.VIP(env.web, f))
		}
		traffic.Connect(env.Client, netip.AddrPortFrom(env.Node.Addr(f), uint16(env.web.Spec.Ports[0].NodePort)))
	}
	traffic.Flows()
	return traffic
}

// switches stops the agent and starts it in another mode.
func (env *fixture) switches(ctx context.Context, mode string) {
	GinkgoHelper()
	if env.Agent != nil {
		Expect(env.Agent.Stop()).To(Succeed())
	}
	env.Options.Mode = mode
	env.StartAgent(ctx)
	Eventually(func() ruleset.Snapshot { return env.Ours(ctx) }).WithTimeout(environment.Soon).Should(map[string]types.GomegaMatcher{
		environment.Native:   And(HaveLen(1), HaveKey("nft")),
		environment.Balanced: And(HaveLen(2), HaveKey("nft"), HaveKey("ipvs")),
		"nft":                And(HaveLen(3), HaveKey("iptables-nft-save"), HaveKey("ip6tables-nft-save"), HaveKey("ipset")),
	}[mode])
}

var _ = Describe("A node with IPVS", Label(environment.Balanced), func() {
	for _, other := range []string{"nft", environment.Native} {
		It("goes to mode ipvs from "+other+" and back, and keeps no trace of either", func(ctx SpecContext) {
			env := openBalanced(ctx)
			env.switches(ctx, other)
			env.Served(env.web)
			first := env.Ours(ctx)

			By("to mode ipvs")
			traffic := env.Traffic(env.web)
			env.switches(ctx, environment.Balanced)
			traffic.LostNothing()

			By("and back")
			traffic = env.newConnections()
			env.switches(ctx, other)
			traffic.LostNothing()
			Eventually(func() string { return first.Diff(env.Ours(ctx)) }).WithTimeout(environment.Soon).Should(BeEmpty())

			Expect(env.Agent.Stop()).To(Succeed())
			env.Cleanup(ctx)
			env.clean(ctx)
		})
	}

	It("goes from kube-proxy's mode ipvs to ours and back, and keeps no trace of either", func(ctx SpecContext) {
		env := openBalanced(ctx)
		proxy := env.startKubeProxy(ctx, environment.Balanced)
		env.Served(env.web)
		traffic := env.Traffic(env.web)

		By("to the agent")
		Expect(proxy.Stop()).To(Succeed())
		env.switches(ctx, environment.Balanced)
		env.Cleanup(ctx, "--kube-proxy")
		others := env.before.Without(kubelet)
		Expect(others.Diff(env.Rules(ctx).Without(ruleset.Agent).Without(kubelet))).To(BeEmpty())
		traffic.Flows()

		By("and back")
		Expect(env.Agent.Stop()).To(Succeed())
		proxy = env.startKubeProxy(ctx, environment.Balanced)
		env.serves(ctx, env.kubes, env.web, true)
		env.Cleanup(ctx)
		Expect(env.Ours(ctx)).To(BeEmpty())
		traffic.LostNothing()

		Expect(proxy.Stop()).To(Succeed())
		env.Cleanup(ctx, "--kube-proxy")
		Expect(others.Diff(env.Rules(ctx).Without(kubelet))).To(BeEmpty())
	})

	It("goes from kube-proxy's mode ipvs to ours without IPVS and back, and keeps no trace of either", func(ctx SpecContext) {
		env := openBalanced(ctx)
		proxy := env.startKubeProxy(ctx, environment.Balanced)
		env.Served(env.web)
		traffic := env.newConnections()

		By("to the agent")
		env.Options.Mode = environment.Native
		env.startBeside(ctx)
		env.serves(ctx, env.served, env.web, true)
		Expect(proxy.Stop()).To(Succeed())
		env.Cleanup(ctx, "--kube-proxy")
		others := env.before.Without(kubelet)
		Expect(others.Diff(env.Rules(ctx).Without(ruleset.Agent).Without(kubelet))).To(BeEmpty())
		traffic.Flows()

		By("and back")
		proxy = env.startKubeProxy(ctx, environment.Balanced)
		env.serves(ctx, env.kubes, env.web, true)
		Expect(env.Agent.Stop()).To(Succeed())
		env.Cleanup(ctx)
		Expect(env.Ours(ctx)).To(BeEmpty())
		traffic.LostNothing()

		Expect(proxy.Stop()).To(Succeed())
		env.Cleanup(ctx, "--kube-proxy")
		Expect(others.Diff(env.Rules(ctx).Without(kubelet))).To(BeEmpty())
	})
})
