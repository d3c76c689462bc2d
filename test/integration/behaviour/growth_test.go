package behaviour_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
)

var _ = Describe("A default range", func() {

	// 1. A /28 is full with 13 Services and the Service kubernetes. 2. A /24 around it makes room for
	// 254 in all: the /28's broadcast address is usable in it. 3. The Services outside of the /28 go,
	// then the /24, which the rest do not need. 4. 14 are left, undisturbed, and the range is full.
	It("grows from 14 to 254 addresses and shrinks to 14", Label("long"), func(ctx SpecContext) {
		const small, large = "10.98.0.0/28", "10.98.0.0/24"
		c := cluster.Start(ctx, cluster.Options{Options: framework.Options{ServiceClusterIPRange: small}})
		first := c.CreateServices(ctx, 13, framework.Numbered(cluster.Namespace, "first"))
		c.ExpectFull(ctx)

		c.CreateServiceCIDR(ctx, "large", large)
		c.WaitLookedAfter(ctx, "large")
		others := c.CreateServices(ctx, 254-14, framework.Numbered(cluster.Namespace, "other"))
		c.ExpectFull(ctx)
		expectHealth(ctx, c)

		c.DeleteServices(ctx, others...)
		c.WaitFreed(ctx, others...)
		c.DeleteServiceCIDRs(ctx, "large")
		Eventually(c.ServiceCIDR).WithArguments(ctx, "large").Should(BeNil())
		c.ExpectFull(ctx)
		for _, s := range first {
			Expect(c.Owner(ctx, s.Spec.ClusterIP)).To(Equal(s.Namespace + "/" + s.Name))
		}
		c.DeleteServices(ctx, first[0])
		c.WaitFreed(ctx, first[0])
		Expect(c.CreateServiceOnceFree(ctx, "successor").Spec.ClusterIP).To(Equal(first[0].Spec.ClusterIP))
		expectHealth(ctx, c)
	})
})

// 1. A cluster of one family has a Service. 2. Its API server is killed and restarted with a second
// family, while the operator runs. 3. The default ServiceCIDR has both. 4. The old Service gets a
// second address, a new one gets two. 5. The running operator looks after the second family.
var _ = Describe("A cluster of one family", func() {
	DescribeTable("becomes one of two under a running operator", func(ctx SpecContext, first, second string) {
		const kubernetes = "kubernetes"
		c := cluster.Start(ctx, cluster.Options{Options: framework.Options{ServiceClusterIPRange: first}})
		old := c.CreateService(ctx, "old")
		process := c.Operator.Pid()
		labelled := func(address string) { // by an operator that looks after it
			GinkgoHelper()
			Eventually(c.Labels).WithArguments(ctx, address).Should(HaveKeyWithValue(cluster.BandLabel, "dynamic"), address)
		}
		labelled(old.Spec.ClusterIP)

		Expect(c.API.Kill()).To(Succeed()) // asked politely, it would wait a minute for the operator's watches to end
		Expect(c.Restart(ctx, framework.Options{ServiceClusterIPRange: first + "," + second})).To(Succeed())
		Eventually(func() []string { return c.ServiceCIDR(ctx, kubernetes).Spec.CIDRs }).Should(HaveExactElements(first, second))
		Expect(c.Condition(ctx, kubernetes, cluster.Ready).Status).To(Equal(metav1.ConditionTrue))

		// The API server allocates from what it has seen, which may lack the second range for a moment.
		var upgraded *corev1.Service
		Eventually(func() (err error) {
			upgraded, err = c.PatchService(ctx, "old", `{"spec":{"ipFamilyPolicy":"RequireDualStack"}}`)
			return err
		}).Should(Succeed())
		Expect(upgraded.Spec.ClusterIPs).To(HaveExactElements(old.Spec.ClusterIP, Not(BeEmpty())))
		fresh := c.CreateServiceOnceFree(ctx, "fresh", framework.RequireDualStack())
		Expect(fresh.Spec.ClusterIPs).To(HaveLen(2))

		for _, s := range []*corev1.Service{upgraded, fresh} {
			for _, address := range s.Spec.ClusterIPs {
				labelled(address)
			}
		}
		Expect(c.Metric(ctx, "addresses", "cidr", second, "state", "allocated")).To(BeEquivalentTo(2))
		expectHealth(ctx, c)

		c.DeleteIPAddress(ctx, fresh.Spec.ClusterIPs[1])
		Eventually(c.Owner).WithArguments(ctx, fresh.Spec.ClusterIPs[1]).Should(Equal("default/fresh"))
		Expect(c.Operator.Pid()).To(Equal(process))
		Expect(c.Operator.Running()).To(BeTrue())
	},
		Entry("IPv6 after IPv4", Label("long"), "10.95.0.0/16", "fd00:95::/112"),
		Entry("IPv4 after IPv6", "fd00:95::/112", "10.95.0.0/16"),
	)
})
