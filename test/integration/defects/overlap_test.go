package defects_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
)

// Networks that the operator of the shared cluster is told of when it is started.
const (
	corporate = "10.113.0.0/16"
	lab       = "fd00:113::/64"
)

func createNode(ctx context.Context, c *cluster.Cluster, name string, podCIDRs []string, addresses ...string) {
	GinkgoHelper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if len(podCIDRs) > 0 {
		node.Spec.PodCIDR, node.Spec.PodCIDRs = podCIDRs[0], podCIDRs
	}
	node, err := c.Client().CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	for _, address := range addresses {
		node.Status.Addresses = append(node.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: address})
	}
	_, err = c.Client().CoreV1().Nodes().UpdateStatus(ctx, node, metav1.UpdateOptions{})
	Expect(err).NotTo(HaveOccurred())
}

func deleteNode(ctx context.Context, c *cluster.Cluster, name string) {
	GinkgoHelper()
	Expect(c.Client().CoreV1().Nodes().Delete(ctx, name, metav1.DeleteOptions{})).To(Succeed())
}

// A range that is used for something else as well loses the traffic of one of the two. Nothing in Kubernetes says so.
var _ = Describe("A ServiceCIDR in a network that is in use", func() {
	overlap := func(ctx SpecContext, name string) func() metav1.Condition {
		return func() metav1.Condition { return clusters[operatorAlone].Condition(ctx, name, cluster.NetworkOverlap) }
	}

	// Nodes come with pod networks and addresses inside a range, and go again, one after the other.
	It("names the pod networks and the addresses of nodes until the nodes have gone", func(ctx SpecContext) {
		c := clusters[operatorAlone]
		c.CreateServiceCIDR(ctx, "amid-nodes", "10.112.0.0/24", "fd00:112::/120")
		Eventually(overlap(ctx, "amid-nodes")).WithTimeout(cluster.Patience).Should(HaveField("Status", metav1.ConditionFalse))

		createNode(ctx, c, "worker-pods", []string{"10.112.0.128/25", "fd00:112::80/121"}, "192.0.2.10")
		createNode(ctx, c, "worker-host", nil, "10.112.0.7", "fd00:112::7")
		createNode(ctx, c, "worker-apart", []string{"10.112.1.0/24"}, "192.0.2.11")
		Eventually(c.Warning(ctx, "amid-nodes", cluster.NetworkOverlap)).WithTimeout(cluster.Patience).Should(And(
			ContainSubstring("10.112.0.128/25 (node worker-pods)"), ContainSubstring("fd00:112::80/121 (node worker-pods)"),
			ContainSubstring("10.112.0.7/32 (node worker-host)"), ContainSubstring("fd00:112::7/128 (node worker-host)"),
			Not(ContainSubstring("worker-apart")), Not(ContainSubstring("192.0.2")),
		))
		events := func() Events {
			return c.Events(ctx).Ours().OnServiceCIDR("amid-nodes").For("ServiceCIDRNetworkOverlap")
		}
		Eventually(events).WithTimeout(cluster.Patience).ShouldNot(BeEmpty())

		deleteNode(ctx, c, "worker-pods")
		Eventually(c.Warning(ctx, "amid-nodes", cluster.NetworkOverlap)).WithTimeout(cluster.Patience).
			Should(And(Not(ContainSubstring("worker-pods")), ContainSubstring("worker-host")))
		deleteNode(ctx, c, "worker-host")
		Eventually(overlap(ctx, "amid-nodes")).WithTimeout(cluster.Patience).Should(HaveField("Status", metav1.ConditionFalse))
	})

	// The operator cannot see every network, so it can be told.
	DescribeTable("names the networks that the operator was told of", func(ctx SpecContext, name, cidr, network string) {
		c := clusters[operatorAlone]
		c.CreateServiceCIDR(ctx, name, cidr)
		Eventually(c.Warning(ctx, name, cluster.NetworkOverlap)).WithTimeout(cluster.Patience).Should(ContainSubstring(network))
		notes := func() []string {
			return c.Events(ctx).Ours().OnServiceCIDR(name).For("ServiceCIDRNetworkOverlap").Notes()
		}
		Eventually(notes).WithTimeout(cluster.Patience).Should(HaveExactElements(ContainSubstring(network)))
	},
		Entry("in IPv4", "amid-corporate", "10.113.7.0/24", corporate+" (network corporate)"),
		Entry("in IPv6", "amid-lab", "fd00:113::/112", lab+" (network lab)"),
		Entry("when the range is the larger one", "around-corporate", "10.112.0.0/15", corporate+" (network corporate)"),
	)
})
