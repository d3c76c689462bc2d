package nodes_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/test/cluster"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/storage"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
)

// The Jobs run on the control plane's node with etcd's certificates as kubeadm leaves them;
// test/integration/migration tests the steps in detail.
var _ = Describe("A cluster of Kubernetes 1.32 that is migrated by the Jobs of the guide, and upgraded", Ordered, func() {
	const namespace, archive = "kube-system", "/var/lib/clusterip-operator/bitmaps.json"
	var c testCluster

	step := func(name string) string { return filepath.Join(c.config, "components", "migration", name) }
	// run applies a step, and returns how its container ended and what it wrote.
	run := func(ctx context.Context, name string) (status int32, log string) {
		GinkgoHelper()
		c.kubectl(ctx, "apply", "--server-side", "-k", step(name))
		job := "clusterip-operator-migration-" + name
		Eventually(func(g Gomega) {
			is, err := c.Client().BatchV1().Jobs(namespace).Get(ctx, job, metav1.GetOptions{})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(is.Status.Conditions).To(ContainElement(HaveField("Type", BeElementOf(batchv1.JobComplete, batchv1.JobFailed))))
		}, soon).Should(Succeed())
		pods := suite.Must(c.Client().CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: "job-name=" + job}))
		Expect(pods.Items).To(HaveLen(1))
		Expect(pods.Items[0].Spec.NodeName).To(Equal(c.Nodes[0].Name))
		log = c.kubectl(ctx, "--namespace="+namespace, "logs", "job/"+job)
		c.kubectl(ctx, "--namespace="+namespace, "delete", "job", job)
		return pods.Items[0].Status.ContainerStatuses[0].State.Terminated.ExitCode, log
	}
	create := func(ctx context.Context, name string) []string {
		GinkgoHelper()
		s := suite.Must(c.Client().CoreV1().Services(metav1.NamespaceDefault).Create(ctx, framework.NewService(metav1.NamespaceDefault, name, framework.RequireDualStack()), metav1.CreateOptions{}))
		return s.Spec.ClusterIPs
	}
	// owner is the Service that an IPAddress names.
	owner := func(ctx context.Context, address string) string {
		out, _ := framework.Kubectl(ctx, c.Kubeconfig(), "get", "ipaddress", address, "-o", "jsonpath={.spec.parentRef.namespace}/{.spec.parentRef.name}")
		return out
	}

	// logs are those of the pod that follows the Services.
	logs := func(ctx context.Context, flags ...string) string {
		out, _ := framework.Kubectl(ctx, c.Kubeconfig(), append([]string{"--namespace=" + namespace, "logs", "deployment/clusterip-operator-migration-verify"}, flags...)...)
		return out
	}

	BeforeAll(func(ctx SpecContext) {
		c = start(ctx, cluster.Options{Version: framework.V132, Images: []string{"manager", "kube-proxy"}})
		Expect(c.DeployKubeProxy(ctx, "iptables")).To(Succeed())
		c.kubectl(ctx, "label", "node", c.Nodes[0].Name, "node-role.kubernetes.io/control-plane=")
	}, NodeTimeout(12*time.Minute))

	It("is checked", func(ctx SpecContext) {
		addresses := create(ctx, "early")
		status, log := run(ctx, "check")
		Expect(status).To(Equal(int32(1)), log)
		for _, a := range addresses {
			Expect(log).To(MatchRegexp("(?s)IPAddressMissing .*" + a + " "))
		}
	}, SpecTimeout(6*time.Minute))

	It("gets the IPAddresses that are missing", func(ctx SpecContext) {
		status, log := run(ctx, "run")
		Expect(status).To(BeZero(), log)
		for _, a := range create(ctx, "between") {
			Expect(owner(ctx, a)).To(BeEmpty(), "nobody follows yet")
		}
	}, SpecTimeout(6*time.Minute))

	It("is kept in step, by a pod that may nothing", func(ctx SpecContext) {
		c.kubectl(ctx, "apply", "--server-side", "-k", step("verify"))
		c.kubectl(ctx, "--namespace="+namespace, "rollout", "status", "deployment/clusterip-operator-migration-verify", "--timeout=3m")
		for _, a := range create(ctx, "late") {
			Eventually(owner, soon).WithArguments(ctx, a).Should(Equal("default/late"))
		}
		node := c.kubectl(ctx, "--namespace="+namespace, "get", "pods", "-l", "app.kubernetes.io/component=migration-verify", "-o", "jsonpath={.items[*].spec.nodeName}")
		for _, n := range c.Nodes {
			if n.Name == node {
				is := inspect(ctx, n, "kubectl-clusterip")
				Expect(is.status).To(And(HaveKeyWithValue("CapBnd", "0000000000000000"), HaveKeyWithValue("NoNewPrivs", "1"), HaveKeyWithValue("Seccomp", "2")))
				Expect(strings.Fields(is.status["Uid"])).To(HaveEach("65532"))
				Expect(is.options["/"]).To(HavePrefix("ro,"))
			}
		}
		status, log := run(ctx, "check")
		Expect(status).To(BeZero(), log)
	}, SpecTimeout(6*time.Minute))

	It("is kept in step by the operator, where that runs", func(ctx SpecContext) {
		const component = "service-cluster-ip-range"
		file := filepath.Join(c.config, "components", component, "kustomization.yaml")
		text := suite.Must(os.ReadFile(file))
		text = bytes.Replace(text, []byte("=10.96.0.0/16\n"), []byte("="+framework.DefaultServiceClusterIPRange+"\n"), 1) // what the component asks an administrator to do
		Expect(os.WriteFile(file, text, 0o600)).To(Succeed())
		c.apply(ctx, c.overlay(component))
		verify := []string{"--namespace=" + namespace, "scale", "deployment/clusterip-operator-migration-verify"}
		c.kubectl(ctx, append(verify, "--replicas=0")...)
		c.kubectl(ctx, "--namespace="+namespace, "wait", "pod", "-l", "app.kubernetes.io/component=migration-verify", "--for=delete", "--timeout=3m")
		for _, a := range create(ctx, "operated") {
			Eventually(owner, soon).WithArguments(ctx, a).Should(Equal("default/operated"))
		}
		c.kubectl(ctx, append(verify, "--replicas=1")...)
		Eventually(logs, soon).WithArguments(ctx).Should(ContainSubstring("in step"))
	}, SpecTimeout(9*time.Minute))

	It("has nothing to repair when its API server is one of 1.37", func(ctx SpecContext) {
		Expect(c.Upgrade(ctx, framework.V137)).To(Succeed())
		for _, a := range create(ctx, "after") {
			Expect(owner(ctx, a)).To(Equal("default/after"))
		}
		Expect(c.kubectl(ctx, "get", "events", "-A")).NotTo(ContainSubstring("ClusterIP"))
		Eventually(logs, "2m").WithArguments(ctx, "--previous").Should(ContainSubstring("the API server has changed"), "it looks every minute")
		c.kubectl(ctx, "delete", "-k", step("verify"))
		c.kubectl(ctx, "--namespace="+operatorNamespace, "rollout", "status", "deployment/clusterip-operator-manager", "--timeout=3m")
	}, SpecTimeout(12*time.Minute))

	It("is told what a way back would change", func(ctx SpecContext) {
		status, log := run(ctx, "rollback")
		Expect(status).To(Equal(int32(1)), log)
		Expect(log).To(And(ContainSubstring("1 bits to set"), ContainSubstring("nothing was written")))
	}, SpecTimeout(6*time.Minute))

	It("has its bitmaps archived on the node, and none in etcd", func(ctx SpecContext) {
		Expect(bitmaps(ctx, c)).To(BeEquivalentTo(2))
		status, log := run(ctx, "finalize")
		Expect(status).To(BeZero(), log)
		Expect(bitmaps(ctx, c)).To(BeZero())
		text := suite.Must(c.Nodes[0].Run(ctx, "cat", archive))
		Expect(text).To(And(ContainSubstring("ranges/serviceips"), ContainSubstring("ranges/secondaryserviceips")))
		create(ctx, "final")
	}, SpecTimeout(6*time.Minute))
})

// bitmaps counts those of Service addresses in etcd.
func bitmaps(ctx context.Context, c testCluster) int {
	GinkgoHelper()
	etcd := storage.Open(c.Etcd)
	return etcd.Count(ctx, "/registry/ranges/serviceips") + etcd.Count(ctx, "/registry/ranges/secondaryserviceips")
}
