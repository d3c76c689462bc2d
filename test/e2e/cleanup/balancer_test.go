package cleanup_test

import (
	"context"
	"net/netip"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/clusterip-operator/clusterip-operator/test/e2e/internal/environment"
	"github.com/clusterip-operator/clusterip-operator/test/e2e/internal/ruleset"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/network"
)

// openBalanced is open, in a machine that has IPVS, with virtual servers of another program.
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

// startBalancing starts kube-proxy in mode ipvs and waits for its rules, which come last: until
// then an endpoint does not reach itself.
func (env *fixture) startBalancing(ctx context.Context) *framework.KubeProxy {
	GinkgoHelper()
	proxy := env.startKubeProxy(ctx, environment.Balanced)
	env.serves(ctx, func(ctx context.Context) ruleset.Snapshot { return ruleset.Snapshot{"ipset": env.kubes(ctx)["ipset"]} }, env.web, true)
	for program, set := range map[string]string{"iptables-nft-save": "KUBE-LOOP-BACK", "ip6tables-nft-save": "KUBE-6-LOOP-BACK"} {
		Eventually(func() string { return env.kubes(ctx)[program] }).WithTimeout(environment.Soon).Should(ContainSubstring("--match-set " + set))
	}
	env.Served(env.web)
	return proxy
}

// lostOnce ends new connections and expects that each client lost one at most: with its virtual
// servers, IPVS drops connections that have begun and not ended.
func lostOnce(traffic *environment.Traffic) {
	GinkgoHelper()
	traffic.Flows()
	traffic.Stop()
	_, losses := traffic.Count()
	AddReportEntry("lost with IPVS", ReportEntryVisibilityAlways, losses)
	clients := map[string]bool{}
	for _, loss := range losses {
		client, _, _ := strings.Cut(loss, ": after")
		Expect(clients).NotTo(HaveKey(client), "%q", losses)
		clients[client] = true
	}
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
			lostOnce(traffic)
			Eventually(func() string { return first.Diff(env.Ours(ctx)) }).WithTimeout(environment.Soon).Should(BeEmpty())

			Expect(env.Agent.Stop()).To(Succeed())
			env.Cleanup(ctx)
			env.clean(ctx)
		})
	}

	It("goes from kube-proxy's mode ipvs to ours and back, and keeps no trace of either", func(ctx SpecContext) {
		env := openBalanced(ctx)
		proxy := env.startBalancing(ctx)
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
		proxy = env.startBalancing(ctx)
		env.Cleanup(ctx)
		Expect(env.Ours(ctx)).To(BeEmpty())
		traffic.LostNothing()

		Expect(proxy.Stop()).To(Succeed())
		env.Cleanup(ctx, "--kube-proxy")
		Expect(others.Diff(env.Rules(ctx).Without(kubelet))).To(BeEmpty())
	})

	It("goes from kube-proxy's mode ipvs to ours without IPVS and back, and keeps no trace of either", func(ctx SpecContext) {
		env := openBalanced(ctx)
		proxy := env.startBalancing(ctx)
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
		proxy = env.startBalancing(ctx)
		Expect(env.Agent.Stop()).To(Succeed())
		env.Cleanup(ctx)
		Expect(env.Ours(ctx)).To(BeEmpty())
		lostOnce(traffic)

		Expect(proxy.Stop()).To(Succeed())
		env.Cleanup(ctx, "--kube-proxy")
		Expect(others.Diff(env.Rules(ctx).Without(kubelet))).To(BeEmpty())
	})
})
