package nodes_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/clusterip-operator/clusterip-operator/test/cluster"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
)

var _ = Describe("A cluster whose only Service proxy is the agent", Ordered, func() {
	var c testCluster

	BeforeAll(func(ctx SpecContext) {
		before := observeMachine(ctx)
		DeferCleanup(func(ctx SpecContext) {
			Expect(cgroupsOf(ctx, c.Dir())).To(BeEmpty())
			Expect(observeMachine(ctx)).To(Equal(before), "what the cluster leaves on the machine")
		})
		c = start(ctx, cluster.Options{Images: images})
		Expect(cgroupsOf(ctx, c.Dir())).NotTo(BeEmpty())
	}, NodeTimeout(9*time.Minute*deadlineFactor))

	It("has the agent on every node, although nothing serves the address of the API server before", func(ctx SpecContext) {
		c.kubectl(ctx, "apply", "--server-side", "-k", filepath.Join(c.config, "proxyagent"))
		c.kubectl(ctx, "--namespace=kube-system", "rollout", "status", "daemonset/clusterip-operator-proxyagent", fmt.Sprint("--timeout=", 3*time.Minute*deadlineFactor))
	}, SpecTimeout(6*time.Minute*deadlineFactor))

	It("has two replicas of the manager, each on a node of its own", func(ctx SpecContext) {
		c.apply(ctx, filepath.Join(c.config, "default"))
		nodes := c.kubectl(ctx, "--namespace="+operatorNamespace, "get", "pods", "-o", "jsonpath={.items[*].spec.nodeName}")
		Expect(strings.Fields(nodes)).To(ConsistOf(c.Nodes[0].Name, c.Nodes[1].Name))
	}, SpecTimeout(6*time.Minute*deadlineFactor))

	It("steers a Service: the API server reaches the webhook at its ClusterIP, which the agent serves", func(ctx SpecContext) {
		c.kubectl(ctx, "apply", "--server-side", "-f", filepath.Join(c.config, "samples", "servicecidrpolicy_tenant.yaml"))
		c.kubectl(ctx, "wait", "servicecidrpolicy", "sample-tenant", "--for=condition=Programmed", "--timeout=3m")
		c.kubectl(ctx, "--namespace=sample-tenant", "create", "service", "clusterip", "web", "--tcp=80")
		Expect(c.kubectl(ctx, "--namespace=sample-tenant", "get", "service", "web", "-o", "jsonpath={.spec.clusterIP}")).To(HavePrefix("10.114.0."))
	}, SpecTimeout(3*time.Minute))

	It("is bundled: the logs of both, and what the agents serve, by pods/exec", func(ctx SpecContext) {
		Expect(c.expectBundled(ctx, c.bundle(ctx, "--redact=false"))).To(ContainSubstring("sample-tenant"))
		Expect(c.expectBundled(ctx, c.bundle(ctx))).NotTo(ContainSubstring("sample-tenant"), "names are covered")
	}, SpecTimeout(6*time.Minute))

	It("serves DNS, and what names lead to: a Service, and the API server", func(ctx SpecContext) {
		Expect(c.DeployDNS(ctx)).To(Succeed())
		c.kubectl(ctx, "create", "deployment", "demo", "--image=clusterip-operator/demo:dev")
		c.kubectl(ctx, "rollout", "status", "deployment/demo", "--timeout=3m")
		c.kubectl(ctx, "expose", "deployment", "demo", "--port=80", "--target-port=8080")
		ask := func(url string) func() string {
			return func() string {
				out, err := framework.Kubectl(ctx, c.Kubeconfig(), "exec", "deployment/demo", "--", "/demo", url)
				return fmt.Sprint(out, err)
			}
		}
		Eventually(ask("http://demo.default.svc.cluster.local"), soon).Should(ContainSubstring(" answers "))
		Expect(ask("https://kubernetes.default")()).To(ContainSubstring("certificate"), "the API server answers with one that the pod was not told to trust")
	}, SpecTimeout(6*time.Minute))

	It("serves on a node again that was rebooted, although nothing makes the address of the API server work there before", func(ctx SpecContext) {
		n := c.Nodes[1]
		connect := func() error {
			_, err := n.Run(ctx, "timeout", "2", "bash", "-c", "</dev/tcp/10.96.0.1/443")
			return err
		}
		Expect(connect()).To(Succeed())
		Expect(c.Reboot(ctx, n)).To(Succeed())
		Expect(connect()).NotTo(Succeed(), "the node has lost its rules")
		Eventually(connect, soon).Should(Succeed())
		c.kubectl(ctx, "--namespace=kube-system", "rollout", "status", "daemonset/clusterip-operator-proxyagent", "--timeout=3m")
	}, SpecTimeout(9*time.Minute))

	It("traces packets from within a pod of the agent", func(ctx SpecContext) {
		pod := c.kubectl(ctx, "get", "pod", "--selector=app=demo", "-o", "jsonpath={.items[0].status.podIP}")
		for _, from := range []string{"node", pod} {
			path := c.kubectl(ctx, "--namespace=kube-system", "exec", "daemonset/clusterip-operator-proxyagent", "--", "/proxyagent-trace", from, "10.96.0.1:443")
			Expect(path).To(And(ContainSubstring(" CIPA-VIPS: "), ContainSubstring("Verdict: goes to ")))
		}
	}, SpecTimeout(3*time.Minute))

	It("gives containers no more than they need, as the kernel sees them", func(ctx SpecContext) {
		const dropped, ofAgent = "0000000000000000", "0000000000003000" // NET_ADMIN and NET_RAW
		for _, n := range c.Nodes {
			for program, capabilities := range map[string]string{"manager": dropped, "proxyagent": ofAgent} {
				is := inspect(ctx, n, program)
				Expect(is.status).To(And(
					HaveKeyWithValue("CapEff", capabilities), HaveKeyWithValue("CapPrm", capabilities), HaveKeyWithValue("CapBnd", capabilities),
					HaveKeyWithValue("NoNewPrivs", "1"), HaveKeyWithValue("Seccomp", "2"), // by a filter
				), "%s on %s", program, n.Name)
				Expect(is.options["/"]).To(HavePrefix("ro,"), "the root file system of %s on %s", program, n.Name)
				if program == "manager" {
					Expect(strings.Fields(is.status["Uid"])).To(HaveEach("65532"))
				}
			}
		}
	}, SpecTimeout(3*time.Minute))
})

// process is what the kernel says of a container's process.
type process struct {
	status map[string]string // /proc/PID/status
	// options are those of its mounts, by their paths.
	options map[string]string
}

func inspect(ctx context.Context, n *cluster.Node, program string) process {
	GinkgoHelper()
	run := func(name string, args ...string) string {
		GinkgoHelper()
		out, err := n.Run(ctx, name, args...)
		Expect(err).NotTo(HaveOccurred())
		return out
	}
	folder := "/proc/" + strings.TrimSpace(run("pgrep", "--exact", program[:min(len(program), 15)])) // longer the kernel has no names
	is := process{status: map[string]string{}, options: map[string]string{}}
	for line := range strings.Lines(run("cat", folder+"/status")) {
		key, value, _ := strings.Cut(line, ":")
		is.status[key] = strings.TrimSpace(value)
	}
	for line := range strings.Lines(run("cat", folder+"/mountinfo")) {
		fields := strings.Fields(line)
		is.options[fields[4]] = fields[5]
	}
	return is
}
