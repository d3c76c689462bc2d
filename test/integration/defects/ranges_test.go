package defects_test

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
)

var _ = Describe("Exhaustion of the default range", func() {
	//	static 16             dynamic 14 or 15
	//	|kubernetes|..........|.............|
	//
	// 1. The range is filled, the dynamic band first.
	// 2. With two dynamic addresses left the operator warns. There is still room.
	// 3. The dynamic band is full, then the static one: each is said at once.
	// 4. The Services go, and all is well again.
	DescribeTable("is announced before it happens", func(ctx SpecContext, cidr string, dynamic int) {
		const kubernetes, static = "kubernetes", 16
		c := cluster.Start(ctx, cluster.Options{Options: framework.Options{ServiceClusterIPRange: cidr}})
		take := func(name string, n int) []*corev1.Service {
			GinkgoHelper()
			return c.CreateServices(ctx, n, framework.Numbered(cluster.Namespace, name))
		}
		status := func(kind string) func() metav1.ConditionStatus {
			return func() metav1.ConditionStatus { return c.Condition(ctx, kubernetes, kind).Status }
		}
		announced := func(kind, reason, text string) {
			GinkgoHelper()
			Eventually(c.Warning(ctx, kubernetes, kind)).Should(cluster.ContainAll(text, cidr))
			Eventually(func() []string { return c.Events(ctx).Ours().Warnings().OnServiceCIDR(kubernetes).For(reason).Notes() }).
				Should(HaveExactElements(cluster.ContainAll(text, cidr)))
		}

		all := take("enough", dynamic-3)
		Eventually(status(cluster.NearlyFull)).Should(Equal(metav1.ConditionFalse))
		Consistently(status(cluster.NearlyFull)).WithTimeout(2 * time.Second).Should(Equal(metav1.ConditionFalse))
		all = append(all, take("few", 1)...)
		announced(cluster.NearlyFull, "ServiceCIDRNearlyFull", "dynamic band")
		Expect(status(cluster.DynamicBandFull)()).To(Equal(metav1.ConditionFalse))

		all = append(all, take("last-dynamic", 2)...)
		announced(cluster.DynamicBandFull, "ServiceCIDRDynamicBandFull", "dynamic band")
		Expect(status(cluster.StaticBandFull)()).To(Equal(metav1.ConditionFalse))

		all = append(all, take("static", static-1)...)
		announced(cluster.StaticBandFull, "ServiceCIDRStaticBandFull", "static band")
		c.ExpectFull(ctx)

		c.DeleteServices(ctx, all...)
		for _, kind := range []string{cluster.NearlyFull, cluster.DynamicBandFull, cluster.StaticBandFull} {
			Eventually(status(kind)).Should(Equal(metav1.ConditionFalse), kind)
		}
	},
		Entry("in IPv4", "10.97.0.0/27", 14),
		Entry("in IPv6", Label("long"), "fd00:97::/123", 15),
	)
})

// Tables decide which addresses are static (allocator). KEP-3070: in ranges of more than 16
// addresses the first sixteenth, but 16 to 256 of them, not counting the network address.
var _ = Describe("The band label of an IPAddress", func() {
	expectBand := func(ctx context.Context, want string, addresses ...string) {
		GinkgoHelper()
		for _, address := range addresses {
			Eventually(clusters[operatorAlone].Labels).WithArguments(ctx, address).Should(HaveKeyWithValue(cluster.BandLabel, want), address)
		}
	}

	// Services on both sides of the line, in ranges of several sizes. A /28 has no static band.
	It("tells static from dynamic for every address", func(ctx SpecContext) {
		c := clusters[operatorAlone]
		c.CreateServiceCIDR(ctx, "banded", "10.114.0.0/24", "fd00:114::/120")
		c.CreateServiceCIDR(ctx, "unbanded", "10.114.1.0/28", "fd00:114::1:0/124")
		c.WaitLookedAfter(ctx, "banded", "unbanded")
		for name, tc := range map[string]struct{ v4, v6, want string }{
			"last-static": {"10.114.0.16", "fd00:114::10", "static"}, "first-dynamic": {"10.114.0.17", "fd00:114::11", "dynamic"},
			"default-static": {"10.96.1.0", "fd00:10:96::100", "static"}, "default-dynamic": {"10.96.1.1", "fd00:10:96::101", "dynamic"},
			"small-dynamic": {"10.114.1.1", "fd00:114::1:1", "dynamic"},
		} {
			c.HoldAddress(ctx, name, tc.v4, tc.v6)
			expectBand(ctx, tc.want, tc.v4, tc.v6)
		}
		expectBand(ctx, "static", "10.96.0.1")
	})

	// A second range makes a dynamic address of the first one static. Then it goes again.
	It("changes when a range with another line comes and goes", func(ctx SpecContext) {
		c := clusters[operatorAlone]
		c.CreateServiceCIDR(ctx, "wide", "10.115.0.0/24", "fd00:115::/120")
		c.WaitLookedAfter(ctx, "wide")
		addresses := c.HoldAddress(ctx, "between-lines", "10.115.0.200", "fd00:115::c8").Spec.ClusterIPs
		expectBand(ctx, "dynamic", addresses...)
		c.CreateServiceCIDR(ctx, "narrow", "10.115.0.192/26", "fd00:115::c0/122")
		expectBand(ctx, "static", addresses...)
		c.WaitLookedAfter(ctx, "narrow")
		c.DeleteServiceCIDRs(ctx, "narrow")
		expectBand(ctx, "dynamic", addresses...)
	})
})

// An alert on the free addresses of a range stays silent while there is no series, and stays on for
// ever if the series outlives the range.
var _ = Describe("The metrics of a ServiceCIDR", func() {
	const v4, v6 = "10.111.0.0/24", "fd00:111::/120"

	// 1. A range is created and nothing allocated. 2. Every band of both families has its figures.
	// 3. It is used. 4. It goes, and its series with it.
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
})
