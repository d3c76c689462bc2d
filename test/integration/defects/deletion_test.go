package defects_test

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
	"github.com/clusterip-operator/clusterip-operator/test/integration/inventory"
)

const (
	// grace is how long a deleted ServiceCIDR stays at least: API servers may still allocate from it.
	grace = 10 * time.Second
	// pastGrace is when upstream's controller has long let go of the ServiceCIDRs that it releases.
	pastGrace = 14 * time.Second
	// anotherManager is the manager named by the IPAddresses that are not the API server's.
	anotherManager = "widgets.example.com"
)

// ranges are ServiceCIDRs to delete, with those that stay and what holds addresses in them.
type ranges struct {
	name string
	// deleted and staying are the CIDRs of one ServiceCIDR each.
	deleted, staying []string
	// held are the addresses of Services, the first of which is called as the ranges.
	held []string
	// foreign is an address with an IPAddress of another manager, empty for none.
	foreign string
}

// free are not needed: empty, or all in them is also in equal or larger ranges or in their halves.
var free = []ranges{
	{name: "empty-ipv4", deleted: []string{"10.120.0.0/24"}},
	{name: "empty-ipv6", deleted: []string{"fd00:120::/120"}},
	{name: "twin-ipv4", deleted: []string{"10.121.0.0/24"}, staying: []string{"10.121.0.0/24"}, held: []string{"10.121.0.9"}},
	{name: "twin-ipv6", deleted: []string{"fd00:121::/120"}, staying: []string{"fd00:121::/120"}, held: []string{"fd00:121::9"}},
	{name: "covered-ipv4", deleted: []string{"10.122.0.0/26"}, staying: []string{"10.122.0.0/24"}, held: []string{"10.122.0.9"}},
	{name: "covered-ipv6", deleted: []string{"fd00:122::/122"}, staying: []string{"fd00:122::/120"}, held: []string{"fd00:122::9"}},
	{name: "halved", deleted: []string{"10.123.0.0/24"}, staying: []string{"10.123.0.0/25", "10.123.0.128/25"}, held: []string{"10.123.0.9"}},
}

// pairs cover each other, so that each of the two is a reason to let the other go.
var pairs = []ranges{
	{name: "identical-ipv4", deleted: []string{"10.101.0.0/24", "10.101.0.0/24"}, held: []string{"10.101.0.77"}},
	{name: "identical-ipv6", deleted: []string{"fd00:101::/120", "fd00:101::/120"}, held: []string{"fd00:101::77"}},
	{name: "nested-ipv4", deleted: []string{"10.102.0.0/24", "10.102.0.0/26"}, held: []string{"10.102.0.5"}},
	{name: "nested-ipv6", deleted: []string{"fd00:102::/120", "fd00:102::/122"}, held: []string{"fd00:102::5"}},
}

// needed are ranges whose contents are nowhere else. Crowds have two Services more than are listed.
var needed = []ranges{
	{name: "crowded-ipv4", deleted: []string{"10.103.0.0/24"}, held: crowd("10.103.0.%d")},
	{name: "crowded-ipv6-of-a-customer-who-is-fond-of-long-names", deleted: []string{"fd00:103::/120"}, held: crowd("fd00:103::%d")},
	{name: "foreign-ipv4", deleted: []string{"10.105.0.0/24"}, foreign: "10.105.0.9"},
	{name: "foreign-ipv6", deleted: []string{"fd00:105::/120"}, foreign: "fd00:105::9"},
	// The address is the network address of one half, and none of the other.
	{name: "seam", deleted: []string{"10.126.0.0/24"}, staying: []string{"10.126.0.0/25", "10.126.0.128/25"}, held: []string{"10.126.0.128"}},
}

func crowd(format string) (addresses []string) {
	for i := range 12 {
		addresses = append(addresses, fmt.Sprintf(format, 20+i))
	}
	return addresses
}

func (r ranges) service(i int) string {
	if i == 0 {
		return r.name
	}
	return fmt.Sprintf("%s-%d", r.name, i)
}

// blocker is how the i-th Service is called where blockers are named.
func (r ranges) blocker(i int) string {
	return fmt.Sprintf("%s (Service %s/%s)", r.held[i], cluster.Namespace, r.service(i))
}

func (r ranges) names(kind string, cidrs []string) (names []string) {
	for i := range cidrs {
		names = append(names, fmt.Sprintf("%s-%s-%d", r.name, kind, i))
	}
	return names
}

// gone and stay are the names of the ServiceCIDRs that are deleted, and of those that are not.
func (r ranges) gone() []string { return r.names("gone", r.deleted) }
func (r ranges) stay() []string { return r.names("stay", r.staying) }

func namesOf(all ...ranges) (names []string) {
	for _, r := range all {
		names = append(names, r.gone()...)
	}
	return names
}

// left polls which of those that are deleted are left.
func left(ctx context.Context, c *cluster.Cluster, all ...ranges) func() []string {
	return func() []string { return c.Remaining(ctx, namesOf(all...)...) }
}

// covered reports whether a deleted ServiceCIDR that is left contains the address of the Service.
func (r ranges) covered(ctx context.Context, c *cluster.Cluster) bool {
	for i, name := range r.gone() {
		if c.ServiceCIDR(ctx, name) != nil && netip.MustParsePrefix(r.deleted[i]).Contains(netip.MustParseAddr(r.held[0])) {
			return true
		}
	}
	return false
}

func (r ranges) create(ctx context.Context, c *cluster.Cluster) {
	GinkgoHelper()
	for i, name := range append(r.gone(), r.stay()...) {
		c.CreateServiceCIDR(ctx, name, append(slices.Clone(r.deleted), r.staying...)[i])
	}
}

func (r ranges) hold(ctx context.Context, c *cluster.Cluster) {
	GinkgoHelper()
	c.WaitLookedAfter(ctx, append(r.gone(), r.stay()...)...)
	for i, address := range r.held {
		c.HoldAddress(ctx, r.service(i), address)
	}
	if r.foreign != "" {
		c.CreateIPAddress(ctx, foreignAddress(r.foreign))
	}
}

func foreignAddress(address string) *networkingv1.IPAddress {
	return framework.NewIPAddress(address, "", "", framework.ManagedBy(anotherManager),
		framework.WithParent(networkingv1.ParentReference{Group: "example.com", Resource: "widgets", Namespace: "factory", Name: "gear"}))
}

// 1. Ranges of all kinds are created in every cluster, and what holds them.
// 2. All are deleted at the same moment.
// 3. The specs watch what becomes of them, for longer than upstream's grace.
// 4. What held them is taken away, and they have to go.
var _ = Describe("A ServiceCIDR that is deleted", Ordered, ContinueOnFailure, func() {
	every := slices.Concat(free, pairs, needed)
	var deleted time.Time

	BeforeAll(func(ctx SpecContext) {
		everywhere(func(c *cluster.Cluster) {
			for _, r := range every {
				r.create(ctx, c)
			}
		})
		everywhere(func(c *cluster.Cluster) {
			for _, r := range every {
				r.hold(ctx, c)
			}
		})
		deleted = time.Now()
		everywhere(func(c *cluster.Cluster) { c.DeleteServiceCIDRs(ctx, namesOf(every...)...) })
	})

	// API servers learn of the deletion one by one. Until all have, the range must stay, needed or
	// not. Ages are in whole seconds. One spec for both clusters: a second would be too late.
	It("stays for the grace of ten seconds", func(ctx SpecContext) {
		until := grace - 2*time.Second
		Expect(time.Since(deleted)).To(BeNumerically("<", until), "too late to see anything")
		Consistently(func(g Gomega) {
			for _, where := range []string{operatorAlone, operatorBeside} {
				remaining := clusters[where].Remaining(ctx, namesOf(free...)...)
				if time.Since(deleted) < until {
					g.Expect(remaining).To(Equal(namesOf(free...)), where)
				}
			}
		}).WithTimeout(until - time.Since(deleted)).Should(Succeed())
	})

	DescribeTable("names the first ten Services that hold it, and counts the others", func(ctx SpecContext, where string) {
		c := clusters[where]
		for _, r := range needed[:2] {
			name := r.gone()[0]
			Eventually(c.Warning(ctx, name, cluster.DeletionBlocked)).Should(And(
				HavePrefix("12 addresses would be left without a ServiceCIDR: "+r.blocker(0)+", "+r.blocker(1)+", "),
				ContainSubstring(r.blocker(9)+" and 2 more. "), ContainSubstring("Delete these, or create a ServiceCIDR that holds their addresses")))
			Expect(c.Condition(ctx, name, cluster.Ready)).To(HaveField("Reason", networkingv1.ServiceCIDRReasonTerminating))
			Expect(c.Metric(ctx, "blocked_deletions", "servicecidr", name)).To(BeEquivalentTo(12))
			// Ten Services with long names exceed the API server's 1,024 characters; the advice must stay.
			Eventually(func() []string {
				return c.Events(ctx).Ours().Warnings().OnServiceCIDR(name).For("ServiceCIDRDeletionBlocked").Notes()
			}).
				Should(ConsistOf(And(cluster.ContainAll("12 addresses", r.blocker(4), "create a ServiceCIDR"), MatchRegexp(`and \d+ more`))))
		}
	}, withOperator("of either family"))

	// kube-controller-manager ignores it; its manager would keep an address outside of every range.
	DescribeTable("names the manager of an address that is no Service's, and leaves it as it is", func(ctx SpecContext, where string) {
		c := clusters[where]
		for _, r := range needed[2:4] {
			name := r.gone()[0]
			Eventually(c.Warning(ctx, name, cluster.DeletionBlocked)).Should(cluster.ContainAll("1 address would be left", r.foreign, "widgets factory/gear", anotherManager))
			Expect(c.Metric(ctx, "addresses", "servicecidr", name, "band", "static", "state", "reserved")).To(BeEquivalentTo(1))
			Expect(c.Metric(ctx, "addresses", "servicecidr", name, "state", "allocated")).To(BeZero())
			now := c.IPAddress(ctx, r.foreign)
			Expect(now.Labels).To(Equal(foreignAddress(r.foreign).Labels))
			Expect(now.ManagedFields).To(HaveLen(1), "somebody else has written it")
		}
	}, withOperator("of either family"))

	DescribeTable("goes when nothing needs it, and its Services stay as they are", func(ctx SpecContext, where string) {
		c := clusters[where]
		Eventually(left(ctx, c, free...)).Should(BeEmpty())
		for _, r := range free {
			Expect(c.Remaining(ctx, r.stay()...)).To(Equal(r.stay()), r.name)
			for _, address := range r.held {
				Expect(c.Owner(ctx, address)).To(Equal(cluster.Namespace + "/" + r.name))
			}
		}
	}, withOperator("of either family"))

	DescribeTable("stays while something in it would be left without a range", func(ctx SpecContext, where string) {
		c := clusters[where]
		Consistently(func(g Gomega) {
			g.Expect(c.Remaining(ctx, namesOf(needed...)...)).To(Equal(namesOf(needed...)))
			for _, p := range pairs {
				g.Expect(p.covered(ctx, c)).To(BeTrue(), "%s: no ServiceCIDR is left for %s", p.name, p.held)
				g.Expect(c.Owner(ctx, p.held[0])).To(Equal(cluster.Namespace + "/" + p.name))
			}
		}).WithTimeout(max(time.Second, pastGrace-time.Since(deleted))).WithPolling(500 * time.Millisecond).Should(Succeed())
	}, withOperator("the last of several too"))

	// This proves the operator's finalizer necessary: upstream has released a range of every pair.
	It("stays although kube-controller-manager has let go of it", func(ctx SpecContext) {
		c := clusters[operatorBeside]
		for _, p := range pairs {
			Eventually(func() []string {
				return slices.DeleteFunc(c.Remaining(ctx, p.gone()...), func(name string) bool {
					return !slices.Contains(c.ServiceCIDR(ctx, name).Finalizers, cluster.UpstreamFinalizer)
				})
			}).ShouldNot(HaveLen(2), p.name)
		}
	})

	// Two controllers write the same condition and finalizer. If they disagreed, it would never end.
	It("is looked at by two controllers in silence, also when both start again", Label("long"), func(ctx SpecContext) {
		c := clusters[operatorBeside]
		Eventually(left(ctx, c, free...)).Should(BeEmpty())
		Eventually(time.Since).WithArguments(deleted).Should(BeNumerically(">", pastGrace))
		// An operator that runs writes a count up to ten minutes later, one that starts at once.
		Expect(c.Operator.Stop()).To(Succeed())
		Expect(c.Operator.Start(ctx)).To(Succeed())
		Eventually(c.Uncounted).WithArguments(ctx).Should(BeEmpty(), "counts are to be written")
		settling, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		suite.Must(inventory.Settled(settling, c.AdminConfig()))
		before := c.Everything(ctx)
		changes := func(leftOut ...string) []string {
			return before.Without(leftOut...).Changes(c.Everything(ctx, leftOut...))
		}
		Consistently(changes).WithTimeout(40 * time.Second).WithPolling(5 * time.Second).Should(BeEmpty())

		Expect(c.Operator.Stop()).To(Succeed())
		Expect(c.Upstream.Stop()).To(Succeed())
		Expect(c.Operator.Start(ctx)).To(Succeed())
		Expect(c.Upstream.Start(ctx)).To(Succeed())
		// A manager has a new memory: it may say again what is wrong.
		Consistently(changes).WithArguments(inventory.Events).WithTimeout(10 * time.Second).WithPolling(time.Second).Should(BeEmpty())
	})

	// The admin follows the advice, one Service after the other.
	DescribeTable("follows its blockers down to the last, and goes with it", func(ctx SpecContext, where string) {
		c := clusters[where]
		remove := func(r ranges, i int) {
			GinkgoHelper()
			Expect(c.Client().CoreV1().Services(cluster.Namespace).Delete(ctx, r.service(i), metav1.DeleteOptions{})).To(Succeed())
		}
		crowded := needed[0]
		for i := range 11 {
			remove(crowded, 1+i)
		}
		Eventually(c.Warning(ctx, crowded.gone()[0], cluster.DeletionBlocked)).
			Should(HavePrefix("1 address would be left without a ServiceCIDR: " + crowded.blocker(0) + ". Delete it, or create a ServiceCIDR that holds its address"))
		Expect(c.Metric(ctx, "blocked_deletions", "servicecidr", crowded.gone()[0])).To(BeEquivalentTo(1))

		for _, r := range slices.Concat(pairs, needed) {
			for i := range r.held {
				if r.name != crowded.name || i == 0 {
					remove(r, i)
				}
			}
			if r.foreign != "" {
				c.DeleteIPAddress(ctx, r.foreign)
			}
		}
		Eventually(left(ctx, c, every...)).Should(BeEmpty())
		Eventually(c.Metric).WithArguments(ctx, "blocked_deletions").Should(Equal(cluster.NoSeries))
		expectHealth(ctx, c)
	}, withOperator("of every kind"))
})
