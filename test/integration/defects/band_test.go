package defects_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
)

// Which addresses are static is decided in tables (allocator). As KEP-3070 has it: of more than 16 addresses the first sixteenth, at least 16 and at
// most 256 of them, not counting the network address.
var _ = Describe("The band label of an IPAddress", func() {
	expectBand := func(ctx context.Context, want string, addresses ...string) {
		GinkgoHelper()
		for _, address := range addresses {
			Eventually(clusters[operatorAlone].Labels).WithArguments(ctx, address).Should(HaveKeyWithValue(cluster.BandLabel, want), address)
		}
	}

	// Services on both sides of the line between the bands, in ranges of several sizes. The static band of a /28 is empty.
	It("tells static from dynamic for every address", func(ctx SpecContext) {
		c := clusters[operatorAlone]
		c.CreateServiceCIDR(ctx, "banded", "10.114.0.0/24", "fd00:114::/120")
		c.CreateServiceCIDR(ctx, "unbanded", "10.114.1.0/28", "fd00:114::1:0/124")
		c.WaitLookedAfter(ctx, "banded", "unbanded")
		for name, tc := range map[string]struct{ v4, v6, want string }{
			"last-static":     {"10.114.0.16", "fd00:114::10", "static"},
			"first-dynamic":   {"10.114.0.17", "fd00:114::11", "dynamic"},
			"default-static":  {"10.96.1.0", "fd00:10:96::100", "static"},
			"default-dynamic": {"10.96.1.1", "fd00:10:96::101", "dynamic"},
			"small-dynamic":   {"10.114.1.1", "fd00:114::1:1", "dynamic"},
		} {
			c.HoldAddress(ctx, name, tc.v4, tc.v6)
			expectBand(ctx, tc.want, tc.v4, tc.v6)
		}
		expectBand(ctx, "static", "10.96.0.1")
	})

	// A second range is laid over the first, so that a dynamic address of the one is a static address of the other. Then it goes again.
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
