package defects_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
)

// An alert on the free addresses of a range is silent as long as there is no series, and stays on for ever if the series
// outlives the range.
var _ = Describe("The metrics of a ServiceCIDR", func() {
	const v4, v6 = "10.111.0.0/24", "fd00:111::/120"

	// 1. A range is created and nothing allocated. 2. Every band of both families has its figures. 3. It is used. 4. It goes, and its
	// series with it.
	It("exist before its first allocation and go with it", func(ctx SpecContext) {
		c := clusters[operatorAlone]
		c.CreateServiceCIDR(ctx, "measured", v4, v6)
		c.WaitLookedAfter(ctx, "measured")

		for _, want := range []struct {
			cidr, family    string
			static, dynamic int
		}{{v4, "IPv4", 16, 238}, {v6, "IPv6", 16, 239}} {
			free := func(band string) float64 {
				return c.Metric(ctx, "addresses", "servicecidr", "measured", "cidr", want.cidr, "family", want.family, "band", band, "state", "free")
			}
			Expect(free("static")).To(BeEquivalentTo(want.static))
			Expect(free("dynamic")).To(BeEquivalentTo(want.dynamic))
			for _, band := range []string{"static", "dynamic"} {
				for _, state := range []string{"allocated", "reserved", "cooling"} {
					Expect(c.Metric(ctx, "addresses", "servicecidr", "measured", "cidr", want.cidr, "band", band, "state", state)).To(BeZero(), band+" "+state)
				}
				Expect(c.Metric(ctx, "allocation_total", "servicecidr", "measured", "cidr", want.cidr, "band", band)).
					To(BeZero(), "the rate of a counter that begins at 1 misses its first step")
			}
			Expect(c.Metric(ctx, "allocated_ips", "cidr", want.cidr)).To(BeZero())
			Expect(c.Metric(ctx, "available_ips", "cidr", want.cidr)).To(BeEquivalentTo(want.static + want.dynamic))
		}

		user := c.HoldAddress(ctx, "measured-service", "10.111.0.5", "fd00:111::50")
		for _, labels := range [][]string{{"cidr", v4, "band", "static"}, {"cidr", v6, "band", "dynamic"}} {
			Eventually(func() float64 { return c.Metric(ctx, "addresses", append(labels, "state", "allocated")...) }).Should(BeEquivalentTo(1))
			// The Service is enough for the one, the other comes with the IPAddress, on another watch.
			Eventually(func() float64 { return c.Metric(ctx, "allocation_total", labels...) }).Should(BeEquivalentTo(1))
		}

		c.DeleteServices(ctx, user)
		c.DeleteServiceCIDRs(ctx, "measured")
		for _, name := range []string{"addresses", "allocated_ips", "available_ips", "allocation_total", "blocked_deletions"} {
			Eventually(c.Metric).WithArguments(ctx, name, "servicecidr", "measured").Should(Equal(cluster.NoSeries), name)
		}
	})

	// The API server's own metric of the same range.
	It("are missing until the first allocation without the operator", func(ctx SpecContext) {
		c := clusters[upstreamAlone]
		c.CreateServiceCIDR(ctx, "measured", v4)
		c.WaitLookedAfter(ctx, "measured")
		measured := func() bool {
			_, found := cluster.ScrapeAPIServer(ctx, c.Access).Value("kube_apiserver_clusterip_allocator_available_ips", "cidr", v4)
			return found
		}
		Expect(measured()).To(BeFalse())
		c.HoldAddress(ctx, "measured-service", "10.111.0.5")
		Expect(measured()).To(BeTrue(), "this is what it is called")
	})
})
