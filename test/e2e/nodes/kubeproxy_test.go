//go:build linux

package nodes_test

import (
	"context"
	"fmt"
	"net"
	"regexp"
	"strconv"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/clusterip-operator/clusterip-operator/test/cluster"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
)

// clients are pods on every node that ask a Service again and again, at its addresses of both families.
const clients = `apiVersion: apps/v1
kind: DaemonSet
metadata: {name: client, namespace: default}
spec:
  selector: {matchLabels: {app: client}}
  template:
    metadata: {labels: {app: client}}
    spec:
      terminationGracePeriodSeconds: 0
      containers: [{name: client, image: "clusterip-operator/demo:dev", args: [-watch, %s]}]
`

var counts = regexp.MustCompile(`asked (\d+) lost (\d+)`)

var _ = DescribeTableSubtree("A cluster with kube-proxy", func(mode string) {
	Describe("that goes over to the agent and comes back, by the commands of the guide", Ordered, func() {
		const guide = "docs/proxyagent.md"
		var (
			c      *cluster.Cluster
			config string
		)
		kubectl := func(ctx context.Context, args ...string) string {
			GinkgoHelper()
			out, err := framework.Kubectl(ctx, c.Kubeconfig(), args...)
			Expect(err).NotTo(HaveOccurred())
			return out
		}
		// asked is how often each client has asked; none may have lost an answer.
		asked := func(ctx context.Context) (all []int) {
			GinkgoHelper()
			for pod := range strings.FieldsSeq(kubectl(ctx, "get", "pods", "-l", "app=client", "-o", "name")) {
				log := kubectl(ctx, "logs", pod)
				Expect(log).NotTo(ContainSubstring("lost:"), pod)
				found := counts.FindAllStringSubmatch(log, -1)
				Expect(found).NotTo(BeEmpty(), pod)
				n, err := strconv.Atoi(found[len(found)-1][1])
				Expect(err).NotTo(HaveOccurred())
				all = append(all, n)
			}
			Expect(all).To(HaveLen(len(c.Nodes)))
			return all
		}
		// goesOn wants traffic to have gone on without a loss, and to go on.
		goesOn := func(ctx context.Context) {
			GinkgoHelper()
			before := asked(ctx)
			time.Sleep(3 * time.Second)
			for i, n := range asked(ctx) {
				Expect(n).To(BeNumerically(">", before[i]))
			}
		}
		ours := func(ctx context.Context, program, word string) (all string) {
			GinkgoHelper()
			for _, n := range c.Nodes {
				out, err := n.Run(ctx, program)
				Expect(err).NotTo(HaveOccurred())
				all += linesWith(out, word)
			}
			return all
		}

		BeforeAll(func(ctx SpecContext) {
			var err error
			c, err = cluster.Start(ctx, cluster.Options{Images: []string{"proxyagent", "kube-proxy", "demo"}})
			Expect(err).NotTo(HaveOccurred())
			DeferCleanup(func() { Expect(c.Stop()).To(Succeed()) })
			config, err = c.Configuration()
			Expect(err).NotTo(HaveOccurred())
			Expect(c.DeployKubeProxy(ctx, mode)).To(Succeed())

			kubectl(ctx, "create", "deployment", "demo", "--image=clusterip-operator/demo:dev", "--replicas=2")
			kubectl(ctx, "rollout", "status", "deployment/demo", "--timeout=60s")
			s := framework.NewService(metav1.NamespaceDefault, "demo", framework.RequireDualStack())
			s.Spec.Selector = map[string]string{"app": "demo"}
			s.Spec.Ports = []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(8080)}}
			s, err = c.Client().CoreV1().Services(s.Namespace).Create(ctx, s, metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
			var urls []string
			for _, a := range s.Spec.ClusterIPs {
				url := strconv.Quote("http://" + net.JoinHostPort(a, "80"))
				urls = append(urls, url)
				for _, n := range c.Nodes {
					Eventually(func() error {
						_, err := n.Run(ctx, "bash", "-c", "exec 3<>/dev/tcp/"+a+"/80")
						return err
					}, "30s").Should(Succeed())
				}
			}
			Expect(c.Apply(ctx, "daemonset/client", fmt.Sprintf(clients, strings.Join(urls, ", ")))).To(Succeed())
			Eventually(func() error {
				return InterceptGomegaFailure(func() { asked(ctx) })
			}, "30s").Should(Succeed())
		}, NodeTimeout(4*time.Minute))

		It("loses nothing on the way there", func(ctx SpecContext) {
			for _, block := range commandsOf(guide, "### In the place of kube-proxy, on a cluster of kubeadm") {
				paste(ctx, c, config, block)
			}
			Expect(ours(ctx, "iptables-nft-save", "CIPA-")).NotTo(BeEmpty())
			Expect(ours(ctx, "iptables-nft-save", "KUBE-SVC-")).To(BeEmpty())
			Expect(kubectl(ctx, "--namespace=kube-system", "get", "pods", "-l", "k8s-app=kube-proxy", "-o", "name")).To(BeEmpty())
			goesOn(ctx)
		}, SpecTimeout(4*time.Minute))

		It("loses nothing on the way back", func(ctx SpecContext) {
			for _, block := range commandsOf(guide, "### The way back") {
				paste(ctx, c, config, block)
			}
			Expect(ours(ctx, "iptables-nft-save", "CIPA-")).To(BeEmpty())
			goesOn(ctx)
		}, SpecTimeout(4*time.Minute))
	})
},
	Entry("in its mode iptables", "iptables"),
	Entry("in its mode nftables", "nftables"),
)
