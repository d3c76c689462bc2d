package cleanup_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/test/e2e/internal/environment"
	"github.com/clusterip-operator/clusterip-operator/test/e2e/internal/ruleset"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
)

// startKubeProxy starts kube-proxy; the spec has to take its rules away.
func (env *fixture) startKubeProxy(ctx context.Context, kind string) *framework.KubeProxy {
	GinkgoHelper()
	options := framework.KubeProxyOptions{Namespace: env.Node, Node: env.Name, Mode: kind, Variant: env.Mode}
	if kind == environment.Balanced { // it takes away all virtual servers that it does not know
		options.Config = map[string]any{"ipvs": map[string]any{"minSyncPeriod": "200ms", "excludeCIDRs": environment.ForeignRanges()}}
	}
	proxy := suite.Must(env.Cluster.StartKubeProxy(ctx, options))
	DeferCleanup(proxy.Kill)
	return proxy
}

// startBeside starts our agent where kube-proxy has the usual ports, and does not wait for it.
func (env *fixture) startBeside(ctx context.Context, args ...string) {
	GinkgoHelper()
	env.Options.NoWait = true
	env.StartAgent(ctx, append([]string{"--metrics-bind-address=127.0.0.1:20249", "--healthz-bind-address=127.0.0.1:20256"}, args...)...)
}

var _ = Describe("A node that goes from kube-proxy to the agent and back", func() {
	DescribeTable("loses no connection and keeps no trace", func(ctx SpecContext, mode, kind string) {
		env := open(ctx, mode)
		proxy := env.startKubeProxy(ctx, kind)
		env.Served(env.web)
		traffic := env.Traffic(env.web)

		By("to the agent")
		env.startBeside(ctx)
		env.serves(ctx, env.served, env.web, true)
		traffic.Flows()
		Expect(proxy.Stop()).To(Succeed())
		env.Cleanup(ctx, "--kube-proxy")
		Expect(env.before.Without(ruleset.Agent).Without(kubelet).Diff(env.Rules(ctx).Without(ruleset.Agent).Without(kubelet))).To(BeEmpty())
		traffic.Flows()

		By("and back")
		proxy = env.startKubeProxy(ctx, kind)
		env.serves(ctx, env.rulesOf(kind), env.web, true)
		traffic.Flows()
		Expect(env.Agent.Stop()).To(Succeed())
		env.Cleanup(ctx)
		Expect(env.Ours(ctx)).To(BeEmpty())
		traffic.LostNothing()

		Expect(proxy.Stop()).To(Succeed())
		env.Cleanup(ctx, "--kube-proxy")
		Expect(env.before.Without(kubelet).Diff(env.Rules(ctx).Without(kubelet))).To(BeEmpty())
	},
		Entry("iptables mode, nft", Label("all"), "nft", "iptables"),
		Entry("iptables mode, legacy", Label("soak"), "legacy", "iptables"),
		Entry("nftables mode", Label("soak"), "nft", "nftables"),
	)
})

// switches stops any agent, starts one in a mode, and waits until it has nothing of other modes.
func (env *fixture) switches(ctx context.Context, mode string) {
	GinkgoHelper()
	if env.Agent != nil {
		Expect(env.Agent.Stop()).To(Succeed())
	}
	env.Options.Mode = mode
	env.StartAgent(ctx)
	parts := map[string][]string{environment.Native: {"nft"}, environment.Balanced: {"nft", "ipvs"}}
	for _, variant := range environment.Variants {
		parts[variant] = []string{"iptables-" + variant + "-save", "ip6tables-" + variant + "-save", "ipset"}
	}
	Eventually(func() []string { return slices.Collect(maps.Keys(env.Ours(ctx))) }).WithTimeout(environment.Soon).Should(ConsistOf(parts[mode]))
}

var _ = Describe("An agent that changes its mode", func() {
	DescribeTable("loses no connection on the way there and back, and leaves nothing of the other one", func(ctx SpecContext, other string) {
		env := open(ctx, "nft")
		env.StartAgent(ctx)
		env.Served(env.web)
		traffic := env.Traffic(env.web)
		first := env.Ours(ctx)
		for _, mode := range []string{other, "nft"} {
			env.switches(ctx, mode)
			traffic.Flows()
		}
		Eventually(func() string { return first.Diff(env.Ours(ctx)) }).WithTimeout(environment.Soon).Should(BeEmpty())
		traffic.LostNothing()
		Expect(env.Agent.Stop()).To(Succeed())
		env.Cleanup(ctx)
		env.clean(ctx)
	}, Entry("to iptables-legacy", "legacy"), Entry("to nftables", environment.Native))
})

var _ = Describe("An agent whose configuration no longer has a family", func() {
	DescribeTable("takes away what it left of it, and goes on with the other one", func(ctx SpecContext, mode, setting string) {
		env := open(ctx, mode)
		env.StartAgent(ctx)
		env.Served(env.web)
		first := env.Ours(ctx)
		Expect(env.Agent.Stop()).To(Succeed())
		file := filepath.Join(GinkgoT().TempDir(), "agent.yaml")
		Expect(os.WriteFile(file, []byte("apiVersion: config.clusterip-operator.io/v1alpha1\nkind: ProxyAgentConfiguration\nipFamilies: [IPv4]\n"+setting), 0o600)).To(Succeed())
		env.StartAgent(ctx, "--config="+file)
		Eventually(func() string { return env.Ours(ctx).String() }).WithTimeout(environment.Soon).
			ShouldNot(Or(ContainSubstring("CIPA-6-"), ContainSubstring("table ip6 clusterip-proxyagent")))
		Expect(env.Ours(ctx)).NotTo(HaveKey(HavePrefix("ip6tables")))
		Expect(first.String()).To(Or(ContainSubstring("CIPA-6-"), ContainSubstring("table ip6 clusterip-proxyagent")), "or it would say nothing")
		environment.Reaches(env.Pod1, environment.VIP(env.web, model.IPv4))
	},
		Entry("iptables-nft", "nft", "iptables: {mode: nft}\n"),
		Entry("iptables-legacy", Label("all"), "legacy", "iptables: {mode: legacy}\n"),
		Entry("nftables", environment.Native, "mode: nftables\n"),
	)
})

var _ = Describe("An agent of the version before", Label("soak"), func() {
	DescribeTable("gives way to this one and takes over again without a lost connection, and leaves nothing behind", func(ctx SpecContext, mode string) {
		previous := suite.Must(framework.PreviousProgram(ctx, "proxyagent"))
		env := open(ctx, mode)
		env.Options.Program = previous
		env.StartAgent(ctx)
		env.Served(env.web)
		traffic := env.Traffic(env.web)
		for i, program := range []string{"", previous, ""} {
			Expect(env.Agent.Stop()).To(Succeed())
			env.Options.Program = program
			env.StartAgent(ctx)
			env.Served(env.Serve(ctx, fmt.Sprintf("new-%d", i), env.Servers()))
			traffic.Flows()
		}
		traffic.LostNothing()
		Expect(env.Agent.Stop()).To(Succeed())
		env.Cleanup(ctx)
		env.clean(ctx)
	}, Entry(nil, "nft"), Entry(nil, "legacy"), Entry(nil, environment.Native))
})

var _ = Describe("An agent beside kube-proxy", func() {
	const label, name = "service.kubernetes.io/service-proxy-name", "clusterip-operator"

	DescribeTable("serves the Services with its name, which kube-proxy does not", func(ctx SpecContext, mode, kind string) {
		env := open(ctx, mode)
		ours := env.Serve(ctx, "ours", env.Servers(), framework.WithLabel(label, name))
		foreign := env.Serve(ctx, "of-a-third", env.Servers(), framework.WithLabel(label, "third"))
		env.startKubeProxy(ctx, kind)
		env.startBeside(ctx, "--service-proxy-name="+name)
		env.Served(env.web)
		traffic := env.Traffic(env.web)
		env.serves(ctx, env.served, ours, true)
		env.Served(ours)
		env.serves(ctx, env.served, env.web, false)
		env.serves(ctx, env.served, foreign, false)

		By("moving one that is in use")
		moving := env.Serve(ctx, "moving", env.Servers())
		env.Served(moving)
		for range 2 {
			env.Update(ctx, moving.Name, func(s *corev1.Service) { s.Labels = map[string]string{label: name} })
			env.serves(ctx, env.served, moving, true)
			env.serves(ctx, env.rulesOf(kind), moving, false)
			env.Served(moving)
			env.Update(ctx, moving.Name, func(s *corev1.Service) { s.Labels = nil })
			env.serves(ctx, env.served, moving, false)
			env.Served(moving)
		}
		env.serves(ctx, env.served, env.web, false)
		traffic.LostNothing()
	},
		Entry("iptables mode, nft", Label("long"), "nft", "iptables"),
		Entry("iptables mode, legacy", Label("soak"), "legacy", "iptables"),
		Entry("nftables mode", Label("soak"), "nft", "nftables"),
	)
})

// rulesOf returns what reads the rules of kube-proxy in one of its modes.
func (env *fixture) rulesOf(kind string) func(context.Context) ruleset.Snapshot {
	if kind == "nftables" {
		return env.native
	}
	return env.kubes
}

// native are the rules of kube-proxy in its mode nftables, none as long as there is no table.
func (env *fixture) native(ctx context.Context) ruleset.Snapshot {
	rules := ruleset.Snapshot{}
	for _, family := range []string{"ip", "ip6"} {
		rules[family], _ = env.Node.Run(ctx, "nft", "list", "table", family, "kube-proxy")
	}
	return rules
}

// served are our rules that serve; an address may also be in a set of those that are allocated.
func (env *fixture) served(ctx context.Context) ruleset.Snapshot {
	rules := env.Ours(ctx)
	delete(rules, "ipset")
	return rules
}
