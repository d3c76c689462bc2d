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
		const guide, ofAgent = "docs/proxyagent.md", "app.kubernetes.io/component=proxyagent"
		var (
			c    testCluster
			urls []string // of the Service
		)
		// asked is how often each client has asked; none may have lost an answer.
		asked := func(ctx context.Context) (all []int) {
			GinkgoHelper()
			for pod := range strings.FieldsSeq(c.kubectl(ctx, "get", "pods", "-l", "app=client", "-o", "name")) {
				log := c.kubectl(ctx, "logs", pod)
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
		// rules are those of iptables and the ipsets on all nodes that have a word in them.
		rules := func(ctx context.Context, word string) (all string) {
			GinkgoHelper()
			for _, n := range c.Nodes {
				out, err := n.Run(ctx, "sh", "-c", "iptables-nft-save && ip6tables-nft-save && ipset save")
				Expect(err).NotTo(HaveOccurred())
				all += linesWith(out, word)
			}
			return all
		}

		inSystem := func(ctx context.Context, kinds, label string) string {
			GinkgoHelper()
			return c.kubectl(ctx, "--namespace=kube-system", "get", kinds, "-l", label, "-o", "name")
		}

		BeforeAll(func(ctx SpecContext) {
			c = start(ctx, cluster.Options{Images: []string{"proxyagent", "kube-proxy", "demo"}})
			Expect(c.DeployKubeProxy(ctx, mode)).To(Succeed())

			c.kubectl(ctx, "create", "deployment", "demo", "--image=clusterip-operator/demo:dev", "--replicas=2")
			c.kubectl(ctx, "rollout", "status", "deployment/demo", "--timeout=60s")
			s := framework.NewService(metav1.NamespaceDefault, "web", framework.RequireDualStack())
			s.Spec.Selector = map[string]string{"app": "demo"}
			s.Spec.Ports = []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(8080)}}
			s, err := c.Client().CoreV1().Services(s.Namespace).Create(ctx, s, metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
			for _, a := range s.Spec.ClusterIPs {
				urls = append(urls, "http://"+net.JoinHostPort(a, "80"))
				for _, n := range c.Nodes {
					Eventually(func() error {
						_, err := n.Run(ctx, "bash", "-c", "exec 3<>/dev/tcp/"+a+"/80")
						return err
					}, "30s").Should(Succeed())
				}
			}
			Expect(c.Apply(ctx, "daemonset/client", fmt.Sprintf(clients, `"`+strings.Join(urls, `", "`)+`"`))).To(Succeed())
			Eventually(func() error {
				return InterceptGomegaFailure(func() { asked(ctx) })
			}, "30s").Should(Succeed())
		}, NodeTimeout(4*time.Minute))

		It("loses nothing on the way there", func(ctx SpecContext) {
			for _, block := range commandsOf(guide, "### In the place of kube-proxy, on a cluster of kubeadm") {
				c.paste(ctx, block)
			}
			Expect(rules(ctx, "-A CIPA-")).NotTo(BeEmpty())
			Expect(rules(ctx, "create CIPA-")).NotTo(BeEmpty())
			Expect(rules(ctx, "KUBE-SVC-")).To(BeEmpty())
			Expect(inSystem(ctx, "pods", "k8s-app=kube-proxy")).To(BeEmpty())
			Expect(inSystem(ctx, "daemonsets,configmaps", ofAgent)).NotTo(BeEmpty())
			goesOn(ctx)
		}, SpecTimeout(4*time.Minute))

		It("loses nothing on the way back", func(ctx SpecContext) {
			for _, block := range commandsOf(guide, "### The way back") {
				c.paste(ctx, block)
			}
			Expect(rules(ctx, "CIPA-")).To(BeEmpty())
			Expect(inSystem(ctx, "daemonsets,configmaps", ofAgent)).To(BeEmpty())
			goesOn(ctx)
		}, SpecTimeout(4*time.Minute))

		// Between the moment in which one proxy has seen the label and that in which the other has, a connection may be refused; from then on it is served.
		It("hands a Service to an agent beside kube-proxy, and takes it back", func(ctx SpecContext) {
			served := func() {
				GinkgoHelper()
				for _, url := range urls {
					Eventually(func() error {
						_, err := framework.Kubectl(ctx, c.Kubeconfig(), "exec", "daemonset/client", "--", "/demo", url)
						return err
					}, "10s").Should(Succeed())
				}
			}
			for _, block := range commandsOf(guide, "### Beside kube-proxy") {
				c.paste(ctx, block)
			}
			Eventually(rules, "10s").WithArguments(ctx, "-A CIPA-VIPS ").ShouldNot(BeEmpty())
			served()
			c.kubectl(ctx, "label", "service", "web", "service.kubernetes.io/service-proxy-name-")
			Eventually(rules, "10s").WithArguments(ctx, "-A CIPA-VIPS ").Should(BeEmpty())
			served()
		}, SpecTimeout(2*time.Minute))
	})
},
	Entry("in its mode iptables", "iptables"),
	Entry("in its mode nftables", "nftables"),
)
