package badinput_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	"github.com/clusterip-operator/clusterip-operator/test/e2e/internal/environment"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
)

var _ = Describe("An agent", func() {
	open := func(ctx context.Context, cp *framework.ControlPlane, mode string) (*environment.Environment, *corev1.Service) {
		GinkgoHelper()
		env := environment.Open(ctx, cp, mode)
		return env, env.Serve(ctx, "web", []environment.Endpoint{{Of: env.Pod2}})
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
		Expect(env.Ours(ctx)).To(BeEmpty())
		for _, program := range []string{"iptables-legacy-save", "iptables-legacy-restore", "ip6tables-legacy-save", "ip6tables-legacy-restore"} {
			path, err := exec.LookPath(program)
			Expect(err).NotTo(HaveOccurred())
			Expect(os.Symlink(path, filepath.Join(dir, program))).To(Succeed())
		}
		env.StartAgent(ctx)
		env.Served(web)
		Expect(env.Rules(ctx)).To(HaveKey("iptables-legacy-save"))
	})

	const plugin = "*nat\n:CNI-HOSTPORT - [0:0]\n-A CNI-HOSTPORT -j RETURN\nCOMMIT\n"
	DescribeTable("chooses nftables unless others serve with iptables, and says why", func(ctx SpecContext, variant, others, mode, reason string) {
		env, web := open(ctx, environment.Cluster, "")
		if others != "" {
			env.Restore(ctx, "", variant, others)
		}
		env.StartAgent(ctx, "--mode=auto")
		env.Served(web)
		metrics, err := env.Agent.Metrics(ctx)
		Expect(err).NotTo(HaveOccurred())
		_, found := metrics.Value("clusterip_proxyagent_build_info", "mode", mode, "mode_reason", reason)
		Expect(found).To(BeTrue())
	},
		Entry("nobody", "", "", environment.Native, "NoRulesOfOthers"),
		Entry("the kubelet, which every node has", "nft", "*filter\n:KUBE-FIREWALL - [0:0]\n-A KUBE-FIREWALL -d 127.0.0.0/8 -j DROP\nCOMMIT\n", environment.Native, "NoRulesOfOthers"),
		Entry("a network plugin", "nft", plugin, "nft", "RulesOfOthers"),
		Entry("a network plugin with iptables-legacy", "legacy", plugin, "legacy", "RulesOfOthers"),
	)

	It("waits for an API server that is not there, and keeps the rules that it finds until it knows better", func(ctx SpecContext) {
		// Where others leak IPAddresses, the API server takes them away between two snapshots.
		env, web := open(ctx, suite.ControlPlane(ctx, framework.Options{}), "legacy")
		env.StartAgent(ctx)
		before := env.Rules(ctx)
		Expect(env.Agent.Stop()).To(Succeed())
		Expect(env.Cluster.API.Kill()).To(Succeed())
		env.Options.NoWait = true
		env.StartAgent(ctx)
		Eventually(func() error { return env.Agent.Healthy(ctx, "/livez") }).WithTimeout(environment.Soon).Should(Succeed())
		Consistently(func(g Gomega) {
			g.Expect(env.Agent.Healthy(ctx, "/healthz")).NotTo(Succeed())
			g.Expect(before.Diff(env.Rules(ctx))).To(BeEmpty())
		}).WithTimeout(2 * time.Second).Should(Succeed())
		env.Served(web)
		Expect(env.Cluster.API.Start(ctx)).To(Succeed())
		Expect(env.Agent.WaitReady(ctx)).To(Succeed())
		Expect(before.Diff(env.Rules(ctx))).To(BeEmpty())
	})

	It("serves on a node that is not registered", func(ctx SpecContext) {
		env, web := open(ctx, environment.Cluster, "nft")
		env.Options.Node = "never-heard-of"
		env.StartAgent(ctx)
		env.Served(web)
	})

	It("serves although its ports are taken, says so, and takes them when they are free", func(ctx SpecContext) {
		env, web := open(ctx, environment.Cluster, "nft")
		health, err := env.Node.Listen("tcp", ":10256")
		Expect(err).NotTo(HaveOccurred())
		metrics, err := env.Node.Listen("tcp", "127.0.0.1:10249")
		Expect(err).NotTo(HaveOccurred())
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
