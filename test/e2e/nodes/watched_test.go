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

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
)

// everywhere are pods of a name on every node. Without arguments they answer; with some they ask a
// Service again and again, at both families' addresses.
const everywhere = `apiVersion: apps/v1
kind: DaemonSet
metadata: {name: %[1]s, namespace: default}
spec:
  selector: {matchLabels: {app: %[1]s}}
  template:
    metadata: {labels: {app: %[1]s}}
    spec:
      terminationGracePeriodSeconds: 0
      containers: [{name: %[1]s, image: "clusterip-operator/demo:dev", args: [%[2]s]}]
`

// web creates a Service of the pods named demo, and returns its addresses, one of each family.
func (c testCluster) web(ctx context.Context) []string {
	GinkgoHelper()
	s := framework.NewService(metav1.NamespaceDefault, "web", framework.RequireDualStack())
	s.Spec.Selector = map[string]string{"app": "demo"}
	s.Spec.Ports = []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(8080)}}
	return suite.Must(c.Client().CoreV1().Services(s.Namespace).Create(ctx, s, metav1.CreateOptions{})).Spec.ClusterIPs
}

var counts = regexp.MustCompile(`asked (\d+) lost (\d+)`)

// watched is a Service with two endpoints that clients on all nodes ask without end.
type watched struct {
	testCluster
	urls []string
}

func watch(ctx context.Context, c testCluster) *watched {
	GinkgoHelper()
	w := &watched{testCluster: c}
	c.kubectl(ctx, "create", "deployment", "demo", "--image=clusterip-operator/demo:dev", "--replicas=2")
	c.kubectl(ctx, "rollout", "status", "deployment/demo", "--timeout=3m")
	for _, a := range c.web(ctx) {
		w.urls = append(w.urls, "http://"+net.JoinHostPort(a, "80"))
		for _, n := range c.Nodes {
			Eventually(func() error {
				_, err := n.Run(ctx, "bash", "-c", "exec 3<>/dev/tcp/"+a+"/80")
				return err
			}, soon).Should(Succeed())
		}
	}
	Expect(c.Apply(ctx, "daemonset/client", fmt.Sprintf(everywhere, "client", `-watch, "`+strings.Join(w.urls, `", "`)+`"`))).To(Succeed())
	Eventually(func() error {
		return InterceptGomegaFailure(func() { w.asked(ctx) })
	}, soon).Should(Succeed())
	return w
}

// asked is how often each client has asked; none may have lost an answer.
func (w *watched) asked(ctx context.Context) (all []int) {
	GinkgoHelper()
	for pod := range strings.FieldsSeq(w.kubectl(ctx, "get", "pods", "-l", "app=client", "-o", "name")) {
		log := w.kubectl(ctx, "logs", pod)
		Expect(log).NotTo(ContainSubstring("lost:"), pod)
		found := counts.FindAllStringSubmatch(log, -1)
		Expect(found).NotTo(BeEmpty(), pod)
		n := suite.Must(strconv.Atoi(found[len(found)-1][1]))
		all = append(all, n)
	}
	Expect(all).To(HaveLen(len(w.Nodes)))
	return all
}

// goesOn wants traffic to have gone on without a loss, and to go on.
func (w *watched) goesOn(ctx context.Context) {
	GinkgoHelper()
	before := w.asked(ctx)
	time.Sleep(3 * time.Second)
	for i, n := range w.asked(ctx) {
		Expect(n).To(BeNumerically(">", before[i]))
	}
}

// ofNFTables is in rules where an agent serves with nftables.
const ofNFTables = "table ip clusterip-proxyagent"

// rules are all nodes' iptables rules by variant, ipsets and nftables table names that have a word.
func (c testCluster) rules(ctx context.Context, word string) (all string) {
	GinkgoHelper()
	const list = `for v in nft legacy; do for f in iptables ip6tables; do $f-$v-save | sed "s/^/$v /"; done; done; ipset save; nft list tables`
	for _, n := range c.Nodes {
		out := suite.Must(n.Run(ctx, "bash", "-c", "set -eo pipefail; "+list))
		all += linesWith(out, word)
	}
	return all
}
