package badinput_test

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/test/e2e/internal/environment"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/network"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
)

// aways are how long the API server is away, in each mode: a moment, and the first 75 s.
func aways() (entries []TableEntry) {
	for _, mode := range environment.Modes {
		entries = append(entries,
			Entry(mode, environment.LabelsOf(environment.Modes, mode, "away"), mode, 2*time.Second),
			Entry(mode+", for 75 s", Label("soak"), mode, 75*time.Second))
	}
	return entries
}

var _ = Describe("An agent", func() {
	open := func(ctx context.Context, cp *framework.ControlPlane, mode string) (*environment.Environment, *corev1.Service) {
		GinkgoHelper()
		env := environment.Open(ctx, cp, mode)
		return env, env.Serve(ctx, "web", []environment.Endpoint{{Of: env.Pod2}}, framework.WithType(corev1.ServiceTypeNodePort))
	}

	It("uses the variant of iptables that is there, and says what it misses", func(ctx SpecContext) {
		env, web := open(ctx, environment.Cluster, "")
		dir := GinkgoT().TempDir()
		env.Options.Env = []string{"PATH=" + dir}
		options := env.Options
		options.Args = []string{"--node-name=n", "--kubeconfig=" + env.Cluster.Kubeconfig()}
		out, code, err := framework.RunProxyAgent(ctx, options)
		Expect(err).NotTo(HaveOccurred())
		Expect(code).To(Equal(1), out)
		Expect(out).To(And(HavePrefix("error: "), ContainSubstring("iptables"), ContainSubstring("PATH"), Not(ContainSubstring("goroutine"))))
		link := func(programs ...string) {
			for _, program := range programs {
				path := suite.Must(exec.LookPath(program))
				Expect(os.Symlink(path, filepath.Join(dir, program))).To(Succeed())
			}
		}
		link("iptables-legacy-save", "iptables-legacy-restore")
		out, code, err = framework.RunProxyAgent(ctx, options)
		Expect(err).NotTo(HaveOccurred())
		Expect(code).To(Equal(1), out)
		Expect(out).To(And(ContainSubstring("error: preparing IPv6 (ipFamilies in the configuration can leave it out): "), ContainSubstring("ip6tables-legacy-save is needed")))
		Expect(env.Ours(ctx)).To(BeEmpty())
		link("ip6tables-legacy-save", "ip6tables-legacy-restore")
		env.StartAgent(ctx)
		env.Served(web)
		Expect(env.Rules(ctx)).To(HaveKey("iptables-legacy-save"))
	})

	It("goes on trying a family that fails when it starts, and is not healthy meanwhile", func(ctx SpecContext) {
		env, web := open(ctx, environment.Cluster, "nft")
		dir := GinkgoT().TempDir()
		save := suite.Must(exec.LookPath("ip6tables-nft-save"))
		mended := filepath.Join(dir, "mended")
		script := fmt.Sprintf("#!/bin/sh\n[ -e %s ] || exit 1\nexec %s \"$@\"\n", mended, save)
		Expect(os.WriteFile(filepath.Join(dir, "ip6tables-nft-save"), []byte(script), 0o700)).To(Succeed())
		env.Options.Env, env.Options.NoWait = []string{"PATH=" + dir + ":" + os.Getenv("PATH")}, true
		env.StartAgent(ctx)
		environment.Reaches(env.Pod1, environment.VIP(web, model.IPv4))
		Consistently(func() error { return env.Agent.Healthy(ctx, "/healthz") }).WithTimeout(2 * time.Second).ShouldNot(Succeed())
		Expect(os.WriteFile(mended, nil, 0o600)).To(Succeed())
		Eventually(func() error { return env.Agent.Healthy(ctx, "/healthz") }).WithTimeout(environment.Soon).Should(Succeed())
		env.Served(web)
	})

	It("needs no program for nftables, in either family", func(ctx SpecContext) {
		env, web := open(ctx, environment.Cluster, environment.Native)
		env.Options.Env = []string{"PATH=" + GinkgoT().TempDir()}
		env.StartAgent(ctx)
		env.Served(web)
	})

	// serves wants the agent to say how it serves, and why, and clients from outside to reach a
	// node port: what a FORWARD that drops lets through is for rules of iptables to say.
	serves := func(ctx context.Context, env *environment.Environment, web *corev1.Service, mode, reason string) {
		GinkgoHelper()
		for _, f := range network.Families {
			environment.Reaches(env.Client, netip.AddrPortFrom(env.Node.Addr(f), uint16(web.Spec.Ports[0].NodePort)))
		}
		metrics := suite.Must(env.Agent.Metrics(ctx))
		_, found := metrics.Value("clusterip_proxyagent_build_info", "mode", mode, "mode_reason", reason)
		Expect(found).To(BeTrue(), env.Agent.LogTail(5))
	}
	const docker = "*filter\n:FORWARD DROP [0:0]\n:DOCKER - [0:0]\n-A FORWARD -o docker0 -j DOCKER\nCOMMIT\n"
	const ufw = "*filter\n:INPUT DROP [0:0]\n:FORWARD DROP [0:0]\n:ufw-before-input - [0:0]\n:ufw-before-forward - [0:0]\n" +
		"-A INPUT -j ufw-before-input\n-A FORWARD -j ufw-before-forward\n" +
		"-A ufw-before-input -i lo -j ACCEPT\n-A ufw-before-input -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT\n-A ufw-before-input -m conntrack --ctstate INVALID -j DROP\n" +
		"-A ufw-before-forward -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT\nCOMMIT\n"
	const plugin = "*nat\n:CNI-HOSTPORT - [0:0]\n-A CNI-HOSTPORT -j RETURN\nCOMMIT\n"
	DescribeTable("chooses nftables unless others serve with iptables, and says why", func(ctx SpecContext, variant, others, mode, reason string) {
		env, web := open(ctx, environment.Cluster, "")
		if others != "" {
			env.Restore(ctx, "", variant, others)
		}
		env.StartAgent(ctx, "--mode=auto")
		serves(ctx, env, web, mode, reason)
	},
		Entry("nobody", "", "", environment.Native, "NoRulesOfOthers"),
		Entry("the kubelet, which every node has", "nft", "*filter\n:KUBE-FIREWALL - [0:0]\n-A KUBE-FIREWALL -d 127.0.0.0/8 -j DROP\nCOMMIT\n", environment.Native, "NoRulesOfOthers"),
		Entry("a network plugin", "nft", plugin, "nft", "RulesOfOthers"),
		Entry("a firewall", "legacy", "*filter\n-A INPUT -p tcp -m tcp --dport 9 -j DROP\nCOMMIT\n", "legacy", "RulesOfOthers"),
		Entry("docker, whose FORWARD drops", "nft", docker, "nft", "ForwardDrops"),
		Entry("docker with iptables-legacy", "legacy", docker, "legacy", "ForwardDrops"),
		Entry("ufw, whose INPUT drops too", "nft", ufw, "nft", "ForwardDrops"),
		Entry("a network plugin with iptables-legacy", "legacy", plugin, "legacy", "RulesOfOthers"),
	)

	It("stays with what serves already when others write rules, until FORWARD drops", func(ctx SpecContext) {
		env, web := open(ctx, environment.Cluster, "")
		env.StartAgent(ctx, "--mode=auto")
		for _, step := range []struct{ others, mode, reason string }{
			{"", environment.Native, "NoRulesOfOthers"}, {plugin, environment.Native, "ServedBefore"}, {docker, "nft", "ForwardDrops"},
			{"*filter\n:FORWARD ACCEPT [0:0]\nCOMMIT\n", "nft", "ServedBefore"},
		} {
			if step.others != "" {
				Expect(env.Agent.Stop()).To(Succeed())
				env.Restore(ctx, "", "nft", step.others)
				Expect(env.Agent.Start(ctx)).To(Succeed())
			}
			serves(ctx, env, web, step.mode, step.reason)
			Eventually(func() bool { return env.Ours(ctx)["nft"] != "" }).WithTimeout(environment.Soon).Should(Equal(step.mode == environment.Native), "rules of the other mode go")
		}
	})

	// Its pauses between two questions grow to a minute while there is no answer (client-go); that
	// one ends however long it takes is in TestAPIServerThatIsNotUpYet of package watch.
	DescribeTable("waits for an API server that is not there, and keeps the rules that it finds until it knows better", func(ctx SpecContext, mode string, away time.Duration) {
		// When other specs leak IPAddresses, the API server deletes them between two snapshots.
		env, web := open(ctx, suite.ControlPlane(ctx, framework.Options{}), mode)
		env.StartAgent(ctx)
		before := env.Rules(ctx)
		Expect(env.Agent.Stop()).To(Succeed())
		Expect(env.Cluster.API.Kill()).To(Succeed())
		env.Options.NoWait = true
		env.StartAgent(ctx)
		Eventually(func() error { return env.Agent.Healthy(ctx, "/livez") }).WithTimeout(environment.Soon).Should(Succeed())
		Consistently(func(g Gomega) {
			g.Expect(env.Agent.Healthy(ctx, "/livez")).To(Succeed())
			g.Expect(env.Agent.Healthy(ctx, "/healthz")).NotTo(Succeed())
			g.Expect(before.Diff(env.Rules(ctx))).To(BeEmpty())
		}).WithTimeout(away).Should(Succeed())
		env.Served(web)
		Expect(env.Cluster.API.Start(ctx)).To(Succeed())
		Expect(env.Agent.WaitReady(ctx)).To(Succeed())
		Expect(before.Diff(env.Rules(ctx))).To(BeEmpty())
		later := env.Serve(ctx, "later", []environment.Endpoint{{Of: env.Pod2}})
		env.Served(web, later)
	}, aways())

	It("serves on a node that is not registered", func(ctx SpecContext) {
		env, web := open(ctx, environment.Cluster, "nft")
		env.Options.Node = "never-heard-of"
		env.StartAgent(ctx)
		env.Served(web)
	})

	It("serves although its ports are taken, says so, and takes them when they are free", func(ctx SpecContext) {
		env, web := open(ctx, environment.Cluster, "nft")
		health := suite.Must(env.Node.Listen("tcp", ":10256"))
		metrics := suite.Must(env.Node.Listen("tcp", "127.0.0.1:10249"))
		env.Options.NoWait = true
		env.StartAgent(ctx)
		env.Served(web)
		Expect(env.Agent.LogTail(100)).To(And(ContainSubstring("10256"), ContainSubstring("10249"), ContainSubstring("address already in use")))
		Expect(health.Close()).To(Succeed())
		Expect(metrics.Close()).To(Succeed())
		Eventually(func() error { return env.Agent.Healthy(ctx, "/healthz") }).WithTimeout(40 * time.Second).Should(Succeed())
		Eventually(func() error { _, err := env.Agent.Metrics(ctx); return err }).WithTimeout(40 * time.Second).Should(Succeed())
	})
})
