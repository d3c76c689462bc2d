//go:build linux

package badinput_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/clusterip-operator/clusterip-operator/test/e2e/internal/stage"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/network"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
)

// fails runs the agent in a namespace, wants it to end by itself with exit code 1 and one message, and returns that.
func fails(ctx context.Context, in *network.Namespace, env []string, args ...string) string {
	GinkgoHelper()
	ctx, cancel := context.WithTimeout(ctx, stage.Soon)
	defer cancel()
	out, code, err := framework.RunProxyAgent(ctx, framework.ProxyAgentOptions{Namespace: in, Env: env, Args: args})
	Expect(err).NotTo(HaveOccurred())
	Expect(code).To(Equal(1), out)
	Expect(out).To(HavePrefix("error: "))
	Expect(out).NotTo(ContainSubstring("goroutine"))
	return out
}

// file writes a file that goes with the spec, and returns its path.
func file(content string) string {
	GinkgoHelper()
	path := filepath.Join(GinkgoT().TempDir(), "config.yaml")
	Expect(os.WriteFile(path, []byte(content), 0o600)).To(Succeed())
	return path
}

const (
	own    = "apiVersion: config.clusterip-operator.io/v1alpha1\nkind: ProxyAgentConfiguration\n"
	theirs = "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n"
)

var _ = Describe("The command line of the agent", Ordered, ContinueOnFailure, func() {
	var bed *network.Bed
	BeforeAll(func(ctx SpecContext) {
		var err error
		bed, err = network.New(ctx)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(bed.Close)
	})
	AfterAll(func(ctx SpecContext) {
		rules, err := bed.Node.Run(ctx, "sh", "-c", "nft list ruleset; ipset save")
		Expect(err).NotTo(HaveOccurred())
		Expect(rules).NotTo(ContainSubstring("CIPA-"), "it wrote rules before it looked at what it was told")
	})

	DescribeTable("names what is wrong with a flag", func(ctx SpecContext, words string, args ...string) {
		out := fails(ctx, bed.Node, nil, append([]string{"--node-name=n", "--kubeconfig=" + cp.Kubeconfig()}, args...)...)
		for word := range strings.FieldsSeq(words) {
			Expect(out).To(ContainSubstring(word))
		}
	},
		Entry("an unknown one", "--proxy-mode", "--proxy-mode=ipvs"),
		Entry("an argument", "start", "start"),
		Entry("a variant of iptables", "ebtables nft legacy", "--iptables-mode=ebtables"),
		Entry("allocations", "maybe prefer enforce ignore", "--allocations=maybe"),
		Entry("a CIDR", "10.0.0.0/33", "--cluster-cidr=10.0.0.0/33"),
		Entry("two CIDRs of a family", "11.0.0.0/8 family", "--cluster-cidr=10.0.0.0/8,11.0.0.0/8"),
		Entry("an address to listen at", "no-address", "--metrics-bind-address=no-address"),
		Entry("a port to listen at", "70000", "--healthz-bind-address=0.0.0.0:70000"),
		Entry("a duration", "soon", "--min-sync-period=soon"),
		Entry("a negative duration", "-1s", "--min-sync-period=-1s"),
		Entry("a Node", "a_b", "--node-name=a_b"),
		Entry("a name of a proxy", "a/b", "--service-proxy-name=a/b"),
		Entry("a missing kubeconfig", "/nonexistent/kubeconfig", "--kubeconfig=/nonexistent/kubeconfig"),
		Entry("a missing file", "/nonexistent/file", "--config=/nonexistent/file"),
		Entry("several at once", "maybe ebtables 10.0.0.0/33", "--allocations=maybe", "--iptables-mode=ebtables", "--cluster-cidr=10.0.0.0/33"),
	)

	DescribeTable("names all that is wrong with a file", func(ctx SpecContext, content, words string) {
		out := fails(ctx, bed.Node, nil, "--kubeconfig="+cp.Kubeconfig(), "--node-name=n", "--config="+file(content))
		Expect(out).To(ContainSubstring("config.yaml"), "which file")
		for word := range strings.FieldsSeq(words) {
			Expect(out).To(ContainSubstring(word))
		}
	},
		Entry("nothing in it", "", ""),
		Entry("no YAML", "{{{ \x00", ""),
		Entry("no kind", "apiVersion: config.clusterip-operator.io/v1alpha1\n", "kind"),
		Entry("another kind", "apiVersion: v1\nkind: ConfigMap\n", "ConfigMap ProxyAgentConfiguration KubeProxyConfiguration"),
		Entry("another version", "apiVersion: config.clusterip-operator.io/v9\nkind: ProxyAgentConfiguration\n", "v9 v1alpha1"),
		Entry("a field that does not exist", own+"iptables: {mod: nft}\n", "mod"),
		Entry("a field that stands twice", own+"nodeName: a\nnodeName: b\n", "nodeName"),
		Entry("a field of another type", own+"iptables: {masqueradeBit: many}\n", "masqueradeBit"),
		Entry("many mistakes", own+"allocations: maybe\nipFamilies: [IPv5]\niptables: {mode: ebtables, masqueradeBit: 32, minSyncPeriod: -1s}\n"+
			"detectLocal: {mode: Guess}\nnodePortAddresses: [10.0.0.0/33]\nhealth: {bindAddress: nowhere}\n",
			"maybe IPv5 ebtables 32 -1s Guess 10.0.0.0/33 nowhere allocations ipFamilies iptables.mode masqueradeBit minSyncPeriod detectLocal"),
		Entry("many mistakes in kube-proxy's", theirs+"clusterCIDR: 10.0.0.0/33\niptables: {masqueradeBit: 32}\nhealthzBindAddress: nowhere\n",
			"10.0.0.0/33 32 nowhere"),
	)

	It("says which programs it misses", func(ctx SpecContext) {
		empty := GinkgoT().TempDir()
		out := fails(ctx, bed.Node, []string{"PATH=" + empty}, "--node-name=n", "--kubeconfig="+cp.Kubeconfig())
		Expect(out).To(And(ContainSubstring("iptables"), ContainSubstring("PATH")))
		for _, program := range []string{"iptables-legacy-save", "iptables-legacy-restore", "ip6tables-legacy-save", "ip6tables-legacy-restore"} {
			path, err := exec.LookPath(program)
			Expect(err).NotTo(HaveOccurred())
			Expect(os.Symlink(path, filepath.Join(empty, program))).To(Succeed())
		}
		out = fails(ctx, bed.Node, []string{"PATH=" + empty}, "--node-name=n", "--kubeconfig="+cp.Kubeconfig(), "--iptables-mode=nft")
		Expect(out).To(ContainSubstring("iptables-nft"))
	})

	DescribeTable("refuses subcommands that make no sense", func(ctx SpecContext, args ...string) {
		fails(ctx, bed.Node, nil, args...)
	},
		Entry("an unknown one", "clean"),
		Entry("cleanup of something", "cleanup", "everything"),
		Entry("cleanup of an unknown variant", "cleanup", "--iptables-mode=ebtables"),
		Entry("dump without an agent", "dump", "--address=127.0.0.1:1"),
		Entry("trace to nowhere", "trace", "10.0.0.1"),
		Entry("trace to no address", "trace", "10.0.0.1", "somewhere:80"),
	)
})

var _ = Describe("An agent", func() {
	It("takes kube-proxy's configuration and names what has no meaning in it", func(ctx SpecContext) {
		w := &world{Stage: stage.Open(ctx, cp, "nft")}
		w.Options.Config = map[string]any{
			"ipvs": map[string]any{"scheduler": "rr", "strictARP": true}, "oomScoreAdj": -500, "winkernel": map[string]any{"enableDSR": true},
			"showHiddenMetricsForVersion": "1.30",
		}
		w.StartAgent(ctx)
		log := w.Agent.LogTail(100)
		for _, field := range []string{"ipvs.scheduler", "ipvs.strictARP", "oomScoreAdj", "winkernel.enableDSR", "showHiddenMetricsForVersion"} {
			Expect(log).To(ContainSubstring(field))
		}
		service := w.Serve(ctx, "web", []stage.Endpoint{{Of: w.Pod2}})
		w.Served(service)
	})

	It("uses the variant of iptables that is there", func(ctx SpecContext) {
		w := &world{Stage: stage.Open(ctx, cp, "")}
		dir := GinkgoT().TempDir()
		for _, program := range []string{"iptables-legacy-save", "iptables-legacy-restore", "ip6tables-legacy-save", "ip6tables-legacy-restore"} {
			path, err := exec.LookPath(program)
			Expect(err).NotTo(HaveOccurred())
			Expect(os.Symlink(path, filepath.Join(dir, program))).To(Succeed())
		}
		w.Options.Env = append(w.Options.Env, "PATH="+dir)
		w.StartAgent(ctx)
		w.Served(w.Serve(ctx, "web", []stage.Endpoint{{Of: w.Pod2}}))
		Expect(w.Rules(ctx)).To(HaveKey("iptables-legacy-save"))
	})

	It("waits for an API server that is not there yet", func(ctx SpecContext) {
		w := &world{Stage: stage.Open(ctx, suite.ControlPlane(ctx, framework.Options{}), "nft")}
		service := w.Serve(ctx, "web", []stage.Endpoint{{Of: w.Pod2}})
		Expect(w.Cluster.API.Kill()).To(Succeed())
		w.Options.NoWait = true
		w.StartAgent(ctx)
		Eventually(func() error { return w.Agent.Healthy(ctx, "/livez") }).WithTimeout(stage.Soon).Should(Succeed())
		Consistently(func() error { return w.Agent.Healthy(ctx, "/healthz") }).WithTimeout(2 * time.Second).ShouldNot(Succeed())
		Expect(w.Agent.Running()).To(BeTrue())
		Expect(w.Cluster.API.Start(ctx)).To(Succeed())
		Expect(w.Agent.WaitReady(ctx)).To(Succeed())
		w.Served(service)
	})

	It("keeps the rules that it finds until it knows better", func(ctx SpecContext) {
		// Where others leak IPAddresses, the API server takes them away between two snapshots.
		w := &world{Stage: stage.Open(ctx, suite.ControlPlane(ctx, framework.Options{}), "legacy")}
		service := w.Serve(ctx, "web", []stage.Endpoint{{Of: w.Pod2}})
		w.StartAgent(ctx)
		before := w.Rules(ctx)
		Expect(w.Agent.Stop()).To(Succeed())
		Expect(w.Cluster.API.Kill()).To(Succeed())
		w.Options.NoWait = true
		w.StartAgent(ctx)
		Consistently(func() string { return before.Diff(w.Rules(ctx)) }).WithTimeout(2 * time.Second).Should(BeEmpty())
		w.Served(service)
		Expect(w.Cluster.API.Start(ctx)).To(Succeed())
		Expect(w.Agent.WaitReady(ctx)).To(Succeed())
		Expect(before.Diff(w.Rules(ctx))).To(BeEmpty())
	})

	It("serves on a node that nobody has registered", func(ctx SpecContext) {
		w := &world{Stage: stage.Open(ctx, cp, "nft")}
		w.Options.Node = "never-heard-of"
		w.StartAgent(ctx)
		w.Served(w.Serve(ctx, "web", []stage.Endpoint{{Of: w.Pod2}}))
	})

	It("serves although its ports are taken, says so, and takes them when they are free", func(ctx SpecContext) {
		w := &world{Stage: stage.Open(ctx, cp, "nft")}
		health, err := w.Node.Listen("tcp", ":10256")
		Expect(err).NotTo(HaveOccurred())
		metrics, err := w.Node.Listen("tcp", "127.0.0.1:10249")
		Expect(err).NotTo(HaveOccurred())
		w.Options.NoWait = true
		w.StartAgent(ctx)
		w.Served(w.Serve(ctx, "web", []stage.Endpoint{{Of: w.Pod2}}))
		Expect(w.Agent.LogTail(100)).To(And(ContainSubstring("10256"), ContainSubstring("10249"), ContainSubstring("address already in use")))
		Expect(health.Close()).To(Succeed())
		Expect(metrics.Close()).To(Succeed())
		Eventually(func() error { return w.Agent.Healthy(ctx, "/healthz") }).WithTimeout(40 * time.Second).Should(Succeed())
		Eventually(func() error { _, err := w.Agent.Metrics(ctx); return err }).WithTimeout(40 * time.Second).Should(Succeed())
	})
})
