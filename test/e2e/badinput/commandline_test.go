//go:build linux

package badinput_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/clusterip-operator/clusterip-operator/test/e2e/internal/environment"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/network"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
)

// fails runs the agent in a namespace, wants it to end by itself with exit code 1 and one message, and returns that.
func fails(ctx context.Context, in *network.Namespace, env []string, args ...string) string {
	GinkgoHelper()
	ctx, cancel := context.WithTimeout(ctx, environment.Soon)
	defer cancel()
	out, code, err := framework.RunProxyAgent(ctx, framework.ProxyAgentOptions{Namespace: in, Env: env, Args: args})
	Expect(err).NotTo(HaveOccurred())
	Expect(code).To(Equal(1), out)
	Expect(out).To(HavePrefix("error: "))
	Expect(out).NotTo(ContainSubstring("goroutine"))
	return out
}

var _ = Describe("The command line of the agent", Ordered, ContinueOnFailure, func() {
	var topology *network.Topology
	BeforeAll(func(ctx SpecContext) {
		var err error
		topology, err = network.New(ctx)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(topology.Close)
	})
	AfterAll(func(ctx SpecContext) {
		rules, err := topology.Node.Run(ctx, "sh", "-c", "nft list ruleset; ipset save")
		Expect(err).NotTo(HaveOccurred())
		Expect(rules).NotTo(ContainSubstring("CIPA-"), "it wrote rules before it checked its flags")
	})

	// All mistakes of flags, files and subcommands are in TestMistakesOnTheCommandLine of cmd/proxyagent and in the tests of proxyagent/config.
	It("names all mistakes of a file at once", func(ctx SpecContext) {
		path := filepath.Join(GinkgoT().TempDir(), "config.yaml")
		Expect(os.WriteFile(path, []byte("apiVersion: config.clusterip-operator.io/v1alpha1\nkind: ProxyAgentConfiguration\n"+
			"allocations: maybe\nipFamilies: [IPv5]\niptables: {mode: ebtables, masqueradeBit: 32}\n"), 0o600)).To(Succeed())
		out := fails(ctx, topology.Node, nil, "--kubeconfig="+cp.Kubeconfig(), "--node-name=n", "--config="+path)
		for _, word := range []string{"maybe", "IPv5", "ebtables", "32"} {
			Expect(out).To(ContainSubstring(word))
		}
	})

	It("says which programs it misses", func(ctx SpecContext) {
		empty := GinkgoT().TempDir()
		out := fails(ctx, topology.Node, []string{"PATH=" + empty}, "--node-name=n", "--kubeconfig="+cp.Kubeconfig())
		Expect(out).To(And(ContainSubstring("iptables"), ContainSubstring("PATH")))
		for _, program := range []string{"iptables-legacy-save", "iptables-legacy-restore", "ip6tables-legacy-save", "ip6tables-legacy-restore"} {
			path, err := exec.LookPath(program)
			Expect(err).NotTo(HaveOccurred())
			Expect(os.Symlink(path, filepath.Join(empty, program))).To(Succeed())
		}
		out = fails(ctx, topology.Node, []string{"PATH=" + empty}, "--node-name=n", "--kubeconfig="+cp.Kubeconfig(), "--iptables-mode=nft")
		Expect(out).To(ContainSubstring("iptables-nft"))
	})
})

var _ = Describe("An agent", func() {
	It("takes kube-proxy's configuration and names what has no meaning in it", func(ctx SpecContext) {
		env := &fixture{Environment: environment.Open(ctx, cp, "nft")}
		env.Options.Config = map[string]any{
			"ipvs": map[string]any{"scheduler": "rr", "strictARP": true}, "oomScoreAdj": -500, "winkernel": map[string]any{"enableDSR": true},
			"showHiddenMetricsForVersion": "1.30",
		}
		env.StartAgent(ctx)
		log := env.Agent.LogTail(100)
		for _, field := range []string{"ipvs.scheduler", "ipvs.strictARP", "oomScoreAdj", "winkernel.enableDSR", "showHiddenMetricsForVersion"} {
			Expect(log).To(ContainSubstring(field))
		}
		service := env.Serve(ctx, "web", []environment.Endpoint{{Of: env.Pod2}})
		env.Served(service)
	})

	It("uses the variant of iptables that is there", func(ctx SpecContext) {
		env := &fixture{Environment: environment.Open(ctx, cp, "")}
		dir := GinkgoT().TempDir()
		for _, program := range []string{"iptables-legacy-save", "iptables-legacy-restore", "ip6tables-legacy-save", "ip6tables-legacy-restore"} {
			path, err := exec.LookPath(program)
			Expect(err).NotTo(HaveOccurred())
			Expect(os.Symlink(path, filepath.Join(dir, program))).To(Succeed())
		}
		env.Options.Env = append(env.Options.Env, "PATH="+dir)
		env.StartAgent(ctx)
		env.Served(env.Serve(ctx, "web", []environment.Endpoint{{Of: env.Pod2}}))
		Expect(env.Rules(ctx)).To(HaveKey("iptables-legacy-save"))
	})

	It("waits for an API server that is not there yet", func(ctx SpecContext) {
		env := &fixture{Environment: environment.Open(ctx, suite.ControlPlane(ctx, framework.Options{}), "nft")}
		service := env.Serve(ctx, "web", []environment.Endpoint{{Of: env.Pod2}})
		Expect(env.Cluster.API.Kill()).To(Succeed())
		env.Options.NoWait = true
		env.StartAgent(ctx)
		Eventually(func() error { return env.Agent.Healthy(ctx, "/livez") }).WithTimeout(environment.Soon).Should(Succeed())
		Consistently(func() error { return env.Agent.Healthy(ctx, "/healthz") }).WithTimeout(2 * time.Second).ShouldNot(Succeed())
		Expect(env.Agent.Running()).To(BeTrue())
		Expect(env.Cluster.API.Start(ctx)).To(Succeed())
		Expect(env.Agent.WaitReady(ctx)).To(Succeed())
		env.Served(service)
	})

	It("keeps the rules that it finds until it knows better", func(ctx SpecContext) {
		// Where others leak IPAddresses, the API server takes them away between two snapshots.
		env := &fixture{Environment: environment.Open(ctx, suite.ControlPlane(ctx, framework.Options{}), "legacy")}
		service := env.Serve(ctx, "web", []environment.Endpoint{{Of: env.Pod2}})
		env.StartAgent(ctx)
		before := env.Rules(ctx)
		Expect(env.Agent.Stop()).To(Succeed())
		Expect(env.Cluster.API.Kill()).To(Succeed())
		env.Options.NoWait = true
		env.StartAgent(ctx)
		Consistently(func() string { return before.Diff(env.Rules(ctx)) }).WithTimeout(2 * time.Second).Should(BeEmpty())
		env.Served(service)
		Expect(env.Cluster.API.Start(ctx)).To(Succeed())
		Expect(env.Agent.WaitReady(ctx)).To(Succeed())
		Expect(before.Diff(env.Rules(ctx))).To(BeEmpty())
	})

	It("serves on a node that is not registered", func(ctx SpecContext) {
		env := &fixture{Environment: environment.Open(ctx, cp, "nft")}
		env.Options.Node = "never-heard-of"
		env.StartAgent(ctx)
		env.Served(env.Serve(ctx, "web", []environment.Endpoint{{Of: env.Pod2}}))
	})

	It("serves although its ports are taken, says so, and takes them when they are free", func(ctx SpecContext) {
		env := &fixture{Environment: environment.Open(ctx, cp, "nft")}
		health, err := env.Node.Listen("tcp", ":10256")
		Expect(err).NotTo(HaveOccurred())
		metrics, err := env.Node.Listen("tcp", "127.0.0.1:10249")
		Expect(err).NotTo(HaveOccurred())
		env.Options.NoWait = true
		env.StartAgent(ctx)
		env.Served(env.Serve(ctx, "web", []environment.Endpoint{{Of: env.Pod2}}))
		Expect(env.Agent.LogTail(100)).To(And(ContainSubstring("10256"), ContainSubstring("10249"), ContainSubstring("address already in use")))
		Expect(health.Close()).To(Succeed())
		Expect(metrics.Close()).To(Succeed())
		Eventually(func() error { return env.Agent.Healthy(ctx, "/healthz") }).WithTimeout(40 * time.Second).Should(Succeed())
		Eventually(func() error { _, err := env.Agent.Metrics(ctx); return err }).WithTimeout(40 * time.Second).Should(Succeed())
	})
})
