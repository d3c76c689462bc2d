package defects_test

import (
	"context"
	"encoding/binary"
	"net/netip"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	networkingv1 "k8s.io/api/networking/v1"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
)

// bandOf says in which band of a range an address lies, as KEP-3070 has it: of more than 16 addresses the first sixteenth is static, at
// least 16 and at most 256 of them, not counting the network address.
func bandOf(cidr netip.Prefix, address netip.Addr) string {
	size := uint64(1) << (cidr.Addr().BitLen() - cidr.Bits())
	if size > 16 && low(address)-low(cidr.Masked().Addr()) <= min(max(16, size/16), 256) {
		return "static"
	}
	return "dynamic"
}

// low returns the lower half of an address.
func low(a netip.Addr) uint64 {
	bytes := a.As16()
	return binary.BigEndian.Uint64(bytes[8:])
}

// wantedBand is the label that an IPAddress should carry: static if any range says so, for that is the band to keep clean, and
// none outside of all ranges or when it is another manager's.
func wantedBand(ctx context.Context, c *cluster.Cluster, ip *networkingv1.IPAddress) string {
	GinkgoHelper()
	if ip.Labels[networkingv1.LabelManagedBy] != framework.ManagedByUpstream {
		return ""
	}
	address, band := netip.MustParseAddr(ip.Name), ""
	for _, cidr := range c.ServiceCIDRs(ctx) {
		for _, text := range cidr.Spec.CIDRs {
			prefix := netip.MustParsePrefix(text)
			if prefix.Contains(address) && band != "static" {
				band = bandOf(prefix, address)
			}
		}
	}
	return band
}

var _ = Describe("The band label of an IPAddress", func() {
	band := func(ctx SpecContext, c *cluster.Cluster, address string) func() string {
		return func() string { return c.Labels(ctx, address)[cluster.BandLabel] }
	}

	// Services on both sides of the line between the bands, in ranges of several sizes. The static band of a /28 is empty.
	It("tells static from dynamic for every address", func(ctx SpecContext) {
		c := clusters[operatorAlone]
		c.CreateServiceCIDR(ctx, "banded", "10.114.0.0/24", "fd00:114::/120")
		c.CreateServiceCIDR(ctx, "unbanded", "10.114.1.0/28", "fd00:114::1:0/124")
		c.WaitLookedAfter(ctx, "banded", "unbanded")
		for name, tc := range map[string]struct{ v4, v6, want string }{
			"first-static":    {"10.114.0.1", "fd00:114::1", "static"},
			"last-static":     {"10.114.0.16", "fd00:114::10", "static"},
			"first-dynamic":   {"10.114.0.17", "fd00:114::11", "dynamic"},
			"last-dynamic":    {"10.114.0.254", "fd00:114::ff", "dynamic"},
			"default-static":  {"10.96.1.0", "fd00:10:96::100", "static"},
			"default-dynamic": {"10.96.1.1", "fd00:10:96::101", "dynamic"},
			"small-dynamic":   {"10.114.1.1", "fd00:114::1:1", "dynamic"},
		} {
			c.HoldAddress(ctx, name, tc.v4, tc.v6)
			Eventually(band(ctx, c, tc.v4)).WithTimeout(cluster.Patience).Should(Equal(tc.want), name)
			Eventually(band(ctx, c, tc.v6)).WithTimeout(cluster.Patience).Should(Equal(tc.want), name)
		}
	})

	// Whatever other specs have left behind is labelled too, the Service of the API server itself to begin with.
	It("is right on all IPAddresses of a cluster", func(ctx SpecContext) {
		for _, where := range []string{operatorAlone, operatorBeside} {
			c := clusters[where]
			Eventually(func(g Gomega) {
				ips := c.IPAddresses(ctx)
				g.Expect(ips).NotTo(BeEmpty())
				for _, ip := range ips {
					g.Expect(ip.Labels[cluster.BandLabel]).To(Equal(wantedBand(ctx, c, &ip)), ip.Name)
				}
			}).WithTimeout(cluster.Patience).Should(Succeed(), where)
		}
	})

	// A second range is laid over the first, so that a dynamic address of the one is a static address of the other. Then it goes again.
	It("changes when a range with another line comes and goes", func(ctx SpecContext) {
		c := clusters[operatorAlone]
		c.CreateServiceCIDR(ctx, "wide", "10.115.0.0/24", "fd00:115::/120")
		c.WaitLookedAfter(ctx, "wide")
		c.HoldAddress(ctx, "between-lines", "10.115.0.200", "fd00:115::c8")
		both := func(want string) {
			GinkgoHelper()
			for _, address := range []string{"10.115.0.200", "fd00:115::c8"} {
				Eventually(band(ctx, c, address)).WithTimeout(cluster.Patience).Should(Equal(want), address)
			}
		}
		both("dynamic")
		c.CreateServiceCIDR(ctx, "narrow", "10.115.0.192/26", "fd00:115::c0/122")
		both("static")
		c.WaitLookedAfter(ctx, "narrow")
		c.DeleteServiceCIDRs(ctx, "narrow")
		both("dynamic")
	})

	// Some do not want their IPAddresses to be written to. The operator that works there writes no label.
	It("is not written when it is switched off", func(ctx SpecContext) {
		c := cluster.Start(ctx, cluster.Options{OperatorArgs: []string{"--band-labels=false"}})
		plain := c.CreateService(ctx, "plain", framework.RequireDualStack())
		Eventually(func() float64 { return c.Metric(ctx, "allocated_ips", "servicecidr", "kubernetes") }).
			WithTimeout(cluster.Patience).Should(BeEquivalentTo(3), "the operator has seen them, and the address of Service kubernetes")
		Consistently(func(g Gomega) {
			for _, address := range plain.Spec.ClusterIPs {
				g.Expect(c.Labels(ctx, address)).NotTo(HaveKey(cluster.BandLabel))
			}
		}).WithTimeout(3 * time.Second).Should(Succeed())
	})
})
