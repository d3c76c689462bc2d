package cleanup_test

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/clusterip-operator/clusterip-operator/test/e2e/internal/environment"
	"github.com/clusterip-operator/clusterip-operator/test/e2e/internal/ruleset"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/network"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
)

var _ = Describe("Cleanup", func() {
	DescribeTable("takes away all that the agent wrote, and nothing else", func(ctx SpecContext, mode string) {
		env := open(ctx, mode)
		env.StartAgent(ctx)
		env.Served(env.web)
		env.routesLocalnet(ctx)
		Expect(env.Agent.Kill()).To(Succeed())
		left := env.Rules(ctx)
		parts, words := 3, And(ContainSubstring("chains"), ContainSubstring("sets")) // rules of both families, and sets
		if mode == environment.Native {
			parts, words = 1, And(ContainSubstring("IPv4 nftables: the table clusterip-proxyagent"), ContainSubstring("IPv6 nftables: the table"))
		}
		Expect(left.Of(ruleset.Agent)).To(HaveLen(parts))

		By("saying what it would do")
		Expect(env.Cleanup(ctx, "--dry-run")).To(And(ContainSubstring("would remove"), ContainSubstring("IPv4"), ContainSubstring("IPv6"), words))
		Expect(left.Diff(env.Rules(ctx))).To(BeEmpty())

		By("doing it")
		Expect(env.Cleanup(ctx)).To(And(ContainSubstring("removed"), Not(ContainSubstring("would"))))
		env.clean(ctx)

		By("doing it again")
		nothing := And(HavePrefix("net.ipv4.conf.all.route_localnet is 1 and stays"), HaveSuffix("\nnothing to remove\n"))
		Expect(env.Cleanup(ctx)).To(nothing)
		Expect(env.Cleanup(ctx, "--dry-run")).To(nothing)
		env.clean(ctx)
	}, environment.EachMode("cleanup"))

	It("does not even load tables where there is nothing", func(ctx SpecContext) {
		topology := suite.Must(network.New(ctx))
		DeferCleanup(topology.Close)
		raw := func() string {
			return suite.Must(topology.Node.Run(ctx, "sh", "-c", "nft list ruleset; cat /proc/net/ip_tables_names /proc/net/ip6_tables_names; ipset save"))
		}
		Expect(raw()).To(BeEmpty())
		for _, args := range [][]string{{"cleanup"}, {"cleanup", "--kube-proxy"}, {"cleanup", "--dry-run"}} {
			out, code, err := framework.RunProxyAgent(ctx, framework.ProxyAgentOptions{Namespace: topology.Node, Args: args})
			Expect(err).NotTo(HaveOccurred())
			Expect(code).To(BeZero(), out)
			Expect(out).To(Equal("nothing to remove\n"))
			Expect(raw()).To(BeEmpty(), strings.Join(args, " "))
		}
	})

	It("looks at both variants, or at the one in its flag, and knows chains and sets of all versions", func(ctx SpecContext) {
		env := open(ctx, "nft")
		for _, mode := range environment.Variants { // the later one does not get to take away what the earlier one left
			env.plant(ctx, mode)
		}
		left := env.Ours(ctx)
		Expect(left).To(HaveLen(5))
		env.Cleanup(ctx, "--iptables-mode=legacy")
		Expect(env.Ours(ctx)).NotTo(HaveKey("iptables-legacy-save"))
		Expect(env.Ours(ctx)).To(HaveKeyWithValue("iptables-nft-save", left["iptables-nft-save"]))
		env.Cleanup(ctx)
		env.clean(ctx)
	})

	DescribeTable("takes away what a killed kube-proxy left", func(ctx SpecContext, mode, kind string) {
		env := open(ctx, mode)
		proxy := env.startKubeProxy(ctx, kind)
		env.Served(env.web)
		Expect(proxy.Kill()).To(Succeed())
		left := env.Rules(ctx)
		Expect(env.before.Diff(left)).NotTo(BeEmpty())

		Expect(env.Cleanup(ctx)).To(ContainSubstring("nothing to remove\n"), "kube-proxy's rules are not ours")
		Expect(env.Cleanup(ctx, "--kube-proxy", "--dry-run")).To(ContainSubstring("would remove"))
		Expect(left.Diff(env.Rules(ctx))).To(BeEmpty())
		env.Cleanup(ctx, "--kube-proxy")
		Expect(env.before.Without(kubelet).Diff(env.Rules(ctx).Without(kubelet))).To(BeEmpty())
		Expect(env.Cleanup(ctx, "--kube-proxy")).To(ContainSubstring("nothing to remove\n"))
	},
		Entry("iptables mode, nft", Label("all"), "nft", "iptables"),
		Entry("iptables mode, legacy", Label("all"), "legacy", "iptables"),
		Entry("nftables mode", Label("all"), "nft", "nftables"),
	)
})

// routesLocalnet waits for an agent's last step at its start: it opens node ports at 127.0.0.1.
func (env *fixture) routesLocalnet(ctx context.Context) {
	GinkgoHelper()
	Eventually(func() string { return env.Run(ctx, "sysctl", "-n", "net.ipv4.conf.all.route_localnet") }).
		WithTimeout(environment.Soon).Should(Equal("1\n"))
}

const planted = `*raw
:CIPA-R - [0:0]
:CIPA-R2 - [0:0]
-A PREROUTING -p tcp -m comment --comment "an old one" -g CIPA-R
-A CIPA-R -m set --match-set %[1]s src -j CIPA-R2
-A CIPA-R2 -j RETURN
COMMIT
*nat
:CIPA-SERVICES - [0:0]
:CIPA-T-1 - [0:0]
-A OUTPUT -j CIPA-SERVICES
-A CIPA-SERVICES -g CIPA-T-1
-A CIPA-T-1 -m set --match-set %[1]s dst -j RETURN
COMMIT
`

// plant leaves what a killed agent of a variant leaves.
func (env *fixture) plant(ctx context.Context, mode string) {
	GinkgoHelper()
	for _, family := range environment.Families {
		set := "CIPA-" + cmp.Or(family, "4") + "-VIP"
		env.Run(ctx, "ipset", "-exist", "create", set, "hash:ip", "family", "inet"+family)
		env.Restore(ctx, family, strings.TrimSuffix(mode, "ables"), fmt.Sprintf(planted, set))
	}
}
