package behaviour_test

import (
	"net/netip"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
)

var _ = Describe("A default range", func() {

	// 1. A /28 is full with 13 Services and the Service kubernetes. 2. A /24 around it makes room for 254 in all, for what is the broadcast
	// address of the one is an address of the other. 3. Those outside of the /28 go, then the /24, which those inside do not need.
	// 4. 14 are left, undisturbed, and there is room for no other.
	It("grows from 14 to 254 addresses and shrinks to 14", func(ctx SpecContext) {
		const small, large = "10.98.0.0/28", "10.98.0.0/24"
		c := cluster.Start(ctx, cluster.Options{Options: framework.Options{ServiceClusterIPRange: small}})
		first := c.CreateServices(ctx, 13, named("first"))
		expectFull(ctx, c)

		c.CreateServiceCIDR(ctx, "large", large)
		c.WaitLookedAfter(ctx, "large")
		others := c.CreateServices(ctx, 254-14, named("other"))
		expectFull(ctx, c)
		expectHealth(ctx, c)

		c.DeleteServices(ctx, others...)
		c.DeleteServiceCIDRs(ctx, "large")
		Eventually(c.ServiceCIDR).WithArguments(ctx, "large").Should(BeNil())
		expectFull(ctx, c)
		for _, s := range first {
			Expect(c.Owner(ctx, s.Spec.ClusterIP)).To(Equal(s.Namespace + "/" + s.Name))
		}
		c.DeleteServices(ctx, first[0])
		Expect(c.CreateServiceOnceFree(ctx, "successor").Spec.ClusterIP).To(Equal(first[0].Spec.ClusterIP))
		expectHealth(ctx, c)
	})

	// A /64 is so large that nobody can count its addresses in 64 bits, the network address included. They are drawn at random,
	// and the very last of them, which would be the broadcast address in IPv4, is as good as any.
	It("of a /64 gives addresses from all of it, and its last one to who asks for it", func(ctx SpecContext) {
		const last = "fd00:64::ffff:ffff:ffff:ffff"
		c := cluster.Start(ctx, cluster.Options{Options: framework.Options{ServiceClusterIPRange: "fd00:64::/64"}})
		regions, addresses := map[byte]bool{}, map[netip.Addr]bool{}
		for _, s := range c.CreateServices(ctx, 40, named("random")) {
			address := netip.MustParseAddr(s.Spec.ClusterIP)
			addresses[address] = true
			regions[address.As16()[8]>>4] = true // each is a sixteenth of the range
		}
		Expect(addresses).To(HaveLen(40))
		Expect(len(regions)).To(BeNumerically(">=", 8), "of sixteen; fewer come by chance once in 10^9 times")
		Expect(c.CreateService(ctx, "last", framework.WithClusterIPs(last)).Spec.ClusterIP).To(Equal(last))

		By("the operator looks after it as after any other")
		Eventually(func() string { return c.Labels(ctx, last)[cluster.BandLabel] }).Should(Equal("dynamic"))
		c.DeleteIPAddress(ctx, last)
		Eventually(c.Owner).WithArguments(ctx, last).Should(Equal("default/last"))
		Expect(c.Metric(ctx, "addresses", "cidr", "fd00:64::/64", "band", "static", "state", "free")).To(BeEquivalentTo(255))
		Expect(c.Metric(ctx, "available_ips", "cidr", "fd00:64::/64")).To(BeNumerically("~", float64(1<<64), 1<<20))
		Expect(c.Breaches(ctx)).To(BeEmpty())
	})
})
