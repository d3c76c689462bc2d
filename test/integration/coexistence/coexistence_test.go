package coexistence_test

import (
	"context"
	"fmt"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
	"github.com/clusterip-operator/clusterip-operator/test/integration/inventory"
)

// changes says what is different from before, resources left out excepted.
func changes(ctx context.Context, c *cluster.Cluster, before inventory.Objects, leftOut ...string) string {
	GinkgoHelper()
	after, err := inventory.Everything(ctx, c.AdminConfig())
	Expect(err).NotTo(HaveOccurred())
	return strings.Join(before.Changes(after.Without(leftOut...)), "\n")
}

// The two controllers share a cluster for a while:
//
//  1. Ranges, Services and IPAddresses come and go; both controllers have work to do with them.
//  2. Two pairs of ranges are deleted together, of which each half covers the other (D1). Services inside hold them.
//  3. Everything that is left is looked at for a minute. Neither controller may write, or they would write for ever.
//  4. Both are restarted. What they find is what they want, so again neither may write.
//  5. The Services of 2. go, and so do the ranges.
var _ = Describe("kube-controller-manager beside the manager", Ordered, func() {
	var (
		c *cluster.Cluster

		inTwins, inInner *corev1.Service
		// together are the ranges of 2. with the Service that each of them holds.
		together = map[string]string{"twin-a": "in-twins", "twin-b": "in-twins", "outer": "in-inner", "inner": "in-inner"}
	)
	const reserved = "10.116.0.9"

	BeforeAll(func(ctx SpecContext) { c = cluster.Start(ctx, cluster.Options{BesideUpstream: true}) })

	It("sees ranges, Services and IPAddresses come and go", func(ctx SpecContext) {
		c.CreateServiceCIDR(ctx, "wide", "10.112.0.0/24")
		c.CreateServiceCIDR(ctx, "narrow", "10.112.0.0/28") // inside wide
		c.CreateServiceCIDR(ctx, "six", "fd00:10:112::/112")
		c.CreateServiceCIDR(ctx, "dual", "10.113.0.0/24", "fd00:10:113::/112")
		c.CreateServiceCIDR(ctx, "tiny", "10.115.0.0/30")
		c.HoldAddress(ctx, "in-narrow", "10.112.0.5")
		c.HoldAddress(ctx, "tiny-1", "10.115.0.1")
		c.HoldAddress(ctx, "tiny-2", "10.115.0.2") // and tiny is full
		services := c.CreateServices(ctx, 60, func(i int) *corev1.Service {
			options := []framework.ServiceOption{framework.PreferDualStack()}
			if i%3 == 0 {
				options = []framework.ServiceOption{framework.WithFamilies(corev1.IPv6Protocol)}
			}
			return framework.NewService(cluster.Namespace, fmt.Sprintf("web-%d", i), options...)
		})
		c.CreateServiceCIDR(ctx, "empty", "10.114.0.0/24")
		c.CreateServiceCIDR(ctx, "foreign", "10.116.0.0/24")
		c.CreateIPAddress(ctx, framework.NewIPAddress(reserved, "", "", framework.ManagedBy("gateway.example.com"),
			framework.WithParent(networkingv1.ParentReference{Group: "example.com", Resource: "gateways", Name: "front"})))

		c.DeleteServices(ctx, services[:30]...)
		toExternalName := []byte(`{"spec":{"type":"ExternalName","externalName":"example.com","clusterIP":null,"clusterIPs":null}}`)
		for _, s := range services[30:35] {
			_, err := c.Client().CoreV1().Services(s.Namespace).Patch(ctx, s.Name, types.MergePatchType, toExternalName, metav1.PatchOptions{})
			Expect(err).NotTo(HaveOccurred())
		}
		for _, s := range services[35:40] {
			c.DeleteIPAddress(ctx, s.Spec.ClusterIP)
		}
		c.WaitLookedAfter(ctx, "empty", "narrow", "foreign")
		c.DeleteServiceCIDRs(ctx, "empty", "narrow", "foreign")

		By("waiting for the ranges that nothing needs, and for the relation to be whole")
		Eventually(c.Remaining).WithArguments(ctx, "empty", "narrow", "foreign").WithTimeout(cluster.Patience).Should(ConsistOf("foreign"))
		Eventually(c.Breaches).WithArguments(ctx).WithTimeout(cluster.Patience).Should(BeEmpty())
	})

	It("does not let go of ranges that cover each other when they are deleted together", func(ctx SpecContext) {
		c.CreateServiceCIDR(ctx, "twin-a", "10.120.0.0/24")
		c.CreateServiceCIDR(ctx, "twin-b", "10.120.0.0/24")
		c.CreateServiceCIDR(ctx, "outer", "10.121.0.0/24")
		c.CreateServiceCIDR(ctx, "inner", "10.121.0.0/26")
		inTwins = c.HoldAddress(ctx, "in-twins", "10.120.0.10")
		inInner = c.HoldAddress(ctx, "in-inner", "10.121.0.10")
		c.WaitLookedAfter(ctx, "twin-a", "twin-b", "outer", "inner")
		c.DeleteServiceCIDRs(ctx, "twin-a", "twin-b", "outer", "inner")
		for name, service := range together {
			Eventually(c.Warning(ctx, name, cluster.DeletionBlocked)).WithTimeout(cluster.Patience).
				Should(ContainSubstring("Service default/"+service), name)
		}

		By("waiting until kube-controller-manager has let go of all of them, as it does alone")
		Eventually(func(g Gomega) {
			for name := range together {
				cidr := c.ServiceCIDR(ctx, name)
				g.Expect(cidr).NotTo(BeNil(), name)
				g.Expect(cidr.Finalizers).To(ConsistOf(cluster.OurFinalizer), name)
			}
		}).WithTimeout(cluster.Patience).Should(Succeed())
	})

	It("has a quiet minute", func(ctx SpecContext) {
		settling, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		before, err := inventory.Settled(settling, c.AdminConfig())
		Expect(err).NotTo(HaveOccurred())

		// What is looked at is worth it.
		for _, name := range []string{"twin-a", "twin-b", "outer", "inner", "foreign"} {
			Expect(c.ServiceCIDR(ctx, name).DeletionTimestamp).NotTo(BeNil(), name)
		}
		Expect(c.Condition(ctx, "tiny", cluster.StaticBandFull).Status).NotTo(Equal(metav1.ConditionTrue), "a /30 has no static band")
		Expect(c.Condition(ctx, "tiny", cluster.DynamicBandFull).Status).To(Equal(metav1.ConditionTrue))

		unchanged := func() string { return changes(ctx, c, before) }
		events := observe(ctx, c)
		Consistently(events.Seen).WithTimeout(time.Minute).WithPolling(5*time.Second).Should(BeEmpty(), unchanged)
		Expect(unchanged()).To(BeEmpty())
	})

	It("is as quiet when both start again", func(ctx SpecContext) {
		// A manager has a new memory: it may say again what is wrong.
		before, err := inventory.Everything(ctx, c.AdminConfig())
		Expect(err).NotTo(HaveOccurred())
		before = before.Without(inventory.Events)
		unchanged := func() string { return changes(ctx, c, before, inventory.Events) }
		events := observe(ctx, c)

		Expect(c.Operator.Stop()).To(Succeed())
		Expect(c.Upstream.Stop()).To(Succeed())
		Expect(c.Operator.Start(ctx)).To(Succeed())
		Expect(c.Upstream.Start(ctx)).To(Succeed())
		Consistently(events.Seen).WithTimeout(10*time.Second).Should(BeEmpty(), unchanged)
		Expect(unchanged()).To(BeEmpty())
	})

	It("lets the ranges go with the last address inside", func(ctx SpecContext) {
		c.DeleteServices(ctx, inTwins, inInner)
		c.DeleteIPAddress(ctx, reserved)
		Eventually(c.Remaining).WithArguments(ctx, "twin-a", "twin-b", "outer", "inner", "foreign").WithTimeout(cluster.Patience).Should(BeEmpty())
		Expect(c.Breaches(ctx)).To(BeEmpty())
	})
})
