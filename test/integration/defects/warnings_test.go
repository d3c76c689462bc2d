package defects_test

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
)

var _ = Describe("An API server that is started with another range than its cluster has", func() {
	const (
		kubernetes   = "kubernetes"
		inconsistent = "KubernetesDefaultServiceCIDRInconsistent"
		wrong        = "10.97.0.0/16,fd00:10:97::/112"
	)

	// 1. The API server comes back with another --service-cluster-ip-range: an upgrade lost a setting.
	// 2. It says so in one event, which is gone an hour later, and in no condition.
	// 3. The operator, told the new range too, sets a condition and writes its own event, here without
	// writing band labels, as some admins want no writes to their IPAddresses.
	// 4. It is still said after the operator was started again.
	// 5. Both are started with the right range, and it is over.
	It("is reported for as long as it lasts", Label("long"), func(ctx SpecContext) {
		c := cluster.Start(ctx, cluster.Options{WithoutOperator: true})
		Expect(c.Restart(ctx, framework.Options{ServiceClusterIPRange: wrong})).To(Succeed())
		Eventually(func() cluster.Events { return c.Events(ctx).OnServiceCIDR(kubernetes).For(inconsistent) }).Should(HaveLen(1))
		Expect(c.ServiceCIDR(ctx, kubernetes).Status.Conditions).To(HaveExactElements(HaveField("Type", cluster.Ready)))

		c.StartOperator(ctx, "--service-cluster-ip-range="+wrong, "--band-labels=false")
		Eventually(c.Warning(ctx, kubernetes, cluster.DefaultRangeMismatch)).Should(cluster.ContainAll(framework.DefaultServiceClusterIPRange, wrong))
		notes := func() []string { return c.Events(ctx).Ours().OnServiceCIDR(kubernetes).For(inconsistent).Notes() }
		Eventually(notes).Should(HaveExactElements(ContainSubstring(wrong)))

		said := c.Condition(ctx, kubernetes, cluster.DefaultRangeMismatch)
		Expect(c.Operator.Stop()).To(Succeed())
		Expect(c.Operator.Start(ctx)).To(Succeed())
		Consistently(c.Condition).WithArguments(ctx, kubernetes, cluster.DefaultRangeMismatch).
			WithTimeout(12 * time.Second).Should(Equal(said))
		Expect(c.Labels(ctx, "10.96.0.1")).NotTo(HaveKey(cluster.BandLabel))

		Expect(c.Operator.Stop()).To(Succeed())
		Expect(c.Restart(ctx, framework.Options{})).To(Succeed())
		c.StartOperator(ctx, "--service-cluster-ip-range="+framework.DefaultServiceClusterIPRange)
		Eventually(c.Condition).WithArguments(ctx, kubernetes, cluster.DefaultRangeMismatch).Should(HaveField("Status", metav1.ConditionFalse))
	})

	// An operator that is not told the range any more compares nothing, and must not go on saying what
	// one before it has said.
	It("is no longer reported by an operator without the flag", func(ctx SpecContext) {
		c := cluster.Start(ctx, cluster.Options{WithoutOperator: true})
		c.StartOperator(ctx, "--service-cluster-ip-range="+wrong)
		Eventually(c.Warning(ctx, kubernetes, cluster.DefaultRangeMismatch)).Should(ContainSubstring(wrong))
		Expect(c.Operator.Stop()).To(Succeed())
		c.StartOperator(ctx)
		Eventually(func() []metav1.Condition { return c.ServiceCIDR(ctx, kubernetes).Status.Conditions }).
			ShouldNot(ContainElement(HaveField("Type", cluster.DefaultRangeMismatch)))
	})
})

// Networks that the operator of the shared cluster is told of when it is started.
const (
	corporate = "10.113.0.0/16"
	lab       = "fd00:113::/64"
)

// A range that also serves another network loses the traffic of one. Kubernetes does not say so.
var _ = Describe("A ServiceCIDR in a network that is in use", func() {
	overlap := func(ctx SpecContext, name string) func() metav1.Condition {
		return func() metav1.Condition { return clusters[operatorAlone].Condition(ctx, name, cluster.NetworkOverlap) }
	}

	// Nodes come with pod networks and addresses inside a range, and go again, one after the other.
	It("names the pod networks and the addresses of nodes until the nodes have gone", func(ctx SpecContext) {
		c := clusters[operatorAlone]
		c.CreateServiceCIDR(ctx, "amid-nodes", "10.112.0.0/24", "fd00:112::/120")
		Eventually(overlap(ctx, "amid-nodes")).Should(HaveField("Status", metav1.ConditionFalse))

		c.CreateNode(ctx, "worker-pods", []string{"10.112.0.128/25", "fd00:112::80/121"}, "192.0.2.10")
		c.CreateNode(ctx, "worker-host", nil, "10.112.0.7", "fd00:112::7")
		c.CreateNode(ctx, "worker-apart", []string{"10.112.1.0/24"}, "192.0.2.11")
		Eventually(c.Warning(ctx, "amid-nodes", cluster.NetworkOverlap)).Should(And(
			ContainSubstring("10.112.0.128/25 (node worker-pods)"), ContainSubstring("fd00:112::80/121 (node worker-pods)"),
			ContainSubstring("10.112.0.7/32 (node worker-host)"), ContainSubstring("fd00:112::7/128 (node worker-host)"),
			Not(ContainSubstring("worker-apart")), Not(ContainSubstring("192.0.2")),
		))
		Eventually(func() cluster.Events {
			return c.Events(ctx).Ours().OnServiceCIDR("amid-nodes").For("ServiceCIDRNetworkOverlap")
		}).ShouldNot(BeEmpty())

		c.DeleteNode(ctx, "worker-pods")
		Eventually(c.Warning(ctx, "amid-nodes", cluster.NetworkOverlap)).Should(And(Not(ContainSubstring("worker-pods")), ContainSubstring("worker-host")))
		c.DeleteNode(ctx, "worker-host")
		Eventually(overlap(ctx, "amid-nodes")).Should(HaveField("Status", metav1.ConditionFalse))
	})

	// The operator cannot see every network, so it can be told.
	DescribeTable("names the networks that the operator was told of", func(ctx SpecContext, name, cidr, network string) {
		c := clusters[operatorAlone]
		c.CreateServiceCIDR(ctx, name, cidr)
		Eventually(c.Warning(ctx, name, cluster.NetworkOverlap)).Should(ContainSubstring(network))
		notes := func() []string {
			return c.Events(ctx).Ours().OnServiceCIDR(name).For("ServiceCIDRNetworkOverlap").Notes()
		}
		Eventually(notes).Should(HaveExactElements(ContainSubstring(network)))
	},
		Entry("in IPv4", "amid-corporate", "10.113.7.0/24", corporate+" (network corporate)"),
		Entry("in IPv6", "amid-lab", "fd00:113::/112", lab+" (network lab)"),
		Entry("when the range is the larger one", "around-corporate", "10.112.0.0/15", corporate+" (network corporate)"),
	)
})
