package nodes_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/test/cluster"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
)

const operatorNamespace = "clusterip-operator-system"

var _ = Describe("The operator in pods", Ordered, func() {
	var (
		c    testCluster
		root string
	)

	inNamespace := func(ctx context.Context, args ...string) string {
		GinkgoHelper()
		return c.kubectl(ctx, append([]string{"--namespace=" + operatorNamespace}, args...)...)
	}
	// run runs a target of the Makefile against the cluster.
	run := func(ctx context.Context, target string) string {
		GinkgoHelper()
		programs := suite.Must(framework.Assets("kubernetes-1.37", "kubectl"))
		cmd := exec.CommandContext(ctx, "make", target)
		cmd.Dir, cmd.Env = root, append(os.Environ(), "KUBECONFIG="+c.Kubeconfig(), "KUBECTL="+filepath.Join(programs, "kubectl"))
		out, err := cmd.CombinedOutput()
		Expect(err).NotTo(HaveOccurred(), string(out))
		return string(out)
	}
	rolledOut := func(ctx context.Context) {
		GinkgoHelper()
		inNamespace(ctx, "rollout", "status", "deployment/clusterip-operator-manager", "--timeout=3m")
	}
	// holder is the process that leads: its pod, and a random text.
	holder := func(ctx context.Context) string {
		GinkgoHelper()
		return inNamespace(ctx, "get", "lease", "clusterip-operator", "-o", "jsonpath={.spec.holderIdentity}")
	}
	// leader is the pod that leads. One that is ending may still hold the lease, and is none.
	leader := func(ctx context.Context) *corev1.Pod {
		GinkgoHelper()
		var pod *corev1.Pod
		Eventually(func(g Gomega) {
			name, _, _ := strings.Cut(holder(ctx), "_")
			var err error
			pod, err = c.Client().CoreV1().Pods(operatorNamespace).Get(ctx, name, metav1.GetOptions{})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(pod.DeletionTimestamp).To(BeNil())
		}, soon).Should(Succeed())
		return pod
	}

	BeforeAll(func(ctx SpecContext) {
		root = suite.Must(framework.ModuleRoot())
		c = start(ctx, cluster.Options{Images: images})
		c.kubectl(ctx, "apply", "--server-side", "-k", filepath.Join(c.config, "proxyagent"))
		run(ctx, "deploy")
		rolledOut(ctx)
		c.kubectl(ctx, "apply", "--server-side", "-f", filepath.Join(c.config, "samples", "servicecidrpolicy_tenant.yaml"))
		c.kubectl(ctx, "wait", "servicecidrpolicy", "sample-tenant", "--for=condition=Programmed", "--timeout=3m")
	}, NodeTimeout(12*time.Minute))

	It("steers every Service while a node is drained", func(ctx SpecContext) {
		created := startCreations(c)
		node := c.Nodes[1].Name
		c.kubectl(ctx, "drain", node, "--ignore-daemonsets", "--timeout=3m")
		Expect(inNamespace(ctx, "get", "pods", "--field-selector=spec.nodeName="+node, "-o", "name")).To(BeEmpty())
		rolledOut(ctx)
		c.kubectl(ctx, "uncordon", node)
		Expect(created.end()).To(BeEmpty())
	}, SpecTimeout(12*time.Minute))

	It("steers every Service while all its pods are replaced, and is on both nodes again", func(ctx SpecContext) {
		created := startCreations(c)
		inNamespace(ctx, "rollout", "restart", "deployment/clusterip-operator-manager")
		rolledOut(ctx)
		Expect(created.end()).To(BeEmpty())
		nodes := inNamespace(ctx, "get", "pods", "--field-selector=status.phase=Running", "-o", "jsonpath={.items[*].spec.nodeName}")
		Expect(strings.Fields(nodes)).To(ContainElements(c.Nodes[0].Name, c.Nodes[1].Name))
	}, SpecTimeout(12*time.Minute))

	It("has another leader soon after the process that leads is killed, and no Service is refused meanwhile", func(ctx SpecContext) {
		killed, before := leader(ctx), holder(ctx)
		created := startCreations(c)
		for _, n := range c.Nodes {
			if n.Name == killed.Spec.NodeName {
				suite.Must(n.Run(ctx, "pkill", "-KILL", "--exact", "manager"))
			}
		}
		restarts := func() string {
			return inNamespace(ctx, "get", "pod", killed.Name, "-o", "jsonpath={.status.containerStatuses[0].restartCount}")
		}
		Eventually(restarts, soon).Should(Equal("1"))
		Eventually(holder, soon).WithArguments(ctx).ShouldNot(Equal(before)) // the other pod, or the next process of the same one, which may win the election: the name of the pod tells nothing
		rolledOut(ctx)
		// While the Service still names a pod whose process is gone, calls fail open.
		Expect(len(created.end())).To(BeNumerically("<", int(created.made.Load())/2))
		Expect(steeredForAWhile(c)).To(BeEmpty())
	}, SpecTimeout(12*time.Minute))

	It("leaves nothing of its own after make undeploy, and Services go on", func(ctx SpecContext) {
		c.kubectl(ctx, "--namespace="+tenantNamespace, "create", "service", "clusterip", "stays", "--tcp=80")
		Expect(run(ctx, "undeploy")).To(ContainSubstring("The operator is gone"))
		for _, kind := range []string{"mutatingwebhookconfigurations", "validatingwebhookconfigurations", "validatingadmissionpolicies", "clusterroles", "clusterrolebindings", "namespaces", "crds"} {
			names := strings.ReplaceAll(c.kubectl(ctx, "get", kind, "-o", "name"), "clusterip-operator-proxyagent", "the agent, which is not undeployed")
			Expect(names).NotTo(ContainSubstring("clusterip-operator"), kind)
		}
		ranges := c.kubectl(ctx, "get", "servicecidrs", "-o", "yaml")
		Expect(ranges).NotTo(ContainSubstring("clusterip-operator.io/servicecidr-protection"))
		Expect(c.kubectl(ctx, "get", "ipaddresses", "-l", "clusterip-operator.io/band", "-o", "name")).To(BeEmpty())
		Expect(c.kubectl(ctx, "--namespace="+tenantNamespace, "get", "service", "stays", "-o", "jsonpath={.spec.clusterIP}")).To(HavePrefix("10.114.0."))
		c.kubectl(ctx, "--namespace="+tenantNamespace, "create", "service", "clusterip", "next", "--tcp=80")
	}, SpecTimeout(15*time.Minute))
})
