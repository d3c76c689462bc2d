package defects_test

import (
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
)

// pastGrace is when upstream's controller has long removed the finalizer of a ServiceCIDR that it lets go: its grace is 10 s.
const pastGrace = 14 * time.Second

// 1. Ranges of all kinds are created in every cluster, and what holds them.
// 2. All of them are deleted at the same moment. Where kube-controller-manager is alone it is away just then, as in a fail-over,
// so that its defect does not hang on a few milliseconds between two timers.
// 3. The specs watch what becomes of them, for longer than upstream's grace.
// 4. What held them is taken away, and they have to go.
var _ = Describe("A ServiceCIDR that is deleted", Ordered, ContinueOnFailure, func() {
	var deleted time.Time

	BeforeAll(func(ctx SpecContext) {
		everywhere(func(c *cluster.Cluster) { createRanges(ctx, c) })
		everywhere(func(c *cluster.Cluster) { holdRanges(ctx, c) })
		Expect(clusters[upstreamAlone].Upstream.Pause()).To(Succeed())
		everywhere(func(c *cluster.Cluster) { c.DeleteServiceCIDRs(ctx, everyRange()...) })
		deleted = time.Now()
	})

	// pastItsGrace polls until ranges that nothing holds would have gone.
	pastItsGrace := func(assertion func(g Gomega)) {
		GinkgoHelper()
		Consistently(assertion).WithTimeout(max(time.Second, pastGrace-time.Since(deleted))).WithPolling(500 * time.Millisecond).Should(Succeed())
	}

	// Twelve Services hold the range. An admin who waits for it to go wants to know which, and what to do; a list of hundreds would
	// help nobody.
	DescribeTable("names the first ten Services that hold it, and counts the others", func(ctx SpecContext, where string) {
		c := clusters[where]
		for _, name := range []string{"crowded-ipv4", "crowded-ipv6"} {
			h := heldBy(name)
			Eventually(c.Warning(ctx, name, cluster.DeletionBlocked)).WithTimeout(cluster.Patience).Should(And(
				HavePrefix("12 addresses would be left without a ServiceCIDR: "+h.blocker(0)+", "+h.blocker(1)+", "),
				ContainSubstring(h.blocker(9)+" and 2 more. "),
				Not(ContainSubstring(h.services[10])), Not(ContainSubstring(h.services[11])),
				ContainSubstring("Delete these, or create a ServiceCIDR that holds their addresses"),
			))
			Expect(c.Condition(ctx, name, cluster.Ready)).To(HaveField("Reason", networkingv1.ServiceCIDRReasonTerminating))
			Expect(c.Metric(ctx, "blocked_deletions", "servicecidr", name)).To(BeEquivalentTo(12))
		}
	}, withOperator("of either family"))

	// The same in an event, for those who watch events. The API server takes no more than 1,024 characters, which ten Services
	// with long names exceed; what to do must not be lost then.
	DescribeTable("says so in one event", func(ctx SpecContext, where, name string, shown int) {
		c, h := clusters[where], heldBy(name)
		blocked := func() Events { return c.Events(ctx).Ours().OnServiceCIDR(name).For("ServiceCIDRDeletionBlocked") }
		Eventually(blocked).WithTimeout(cluster.Patience).Should(HaveLen(1))
		event := blocked()[0]
		Expect(event.Type).To(Equal(corev1.EventTypeWarning))
		Expect(event.Note).To(And(ContainSubstring("12 addresses"), MatchRegexp(`and \d+ more`), ContainSubstring("create a ServiceCIDR")))
		for i := range shown {
			Expect(event.Note).To(ContainSubstring(h.blocker(i)))
		}
	},
		Entry("with ten of the Services, "+operatorAlone, operatorAlone, "crowded-ipv4", 10),
		Entry("with ten of the Services, "+operatorBeside, operatorBeside, "crowded-ipv4", 10),
		Entry("with as many of the Services as fit, "+operatorAlone, operatorAlone, "crowded-ipv6", 5),
		Entry("with as many of the Services as fit, "+operatorBeside, operatorBeside, "crowded-ipv6", 5),
	)

	// One Service is left. Words for many would make the admin look for more.
	DescribeTable("speaks of one address when it is one", func(ctx SpecContext, where string) {
		c, h := clusters[where], heldBy("single-ipv4")
		Eventually(c.Warning(ctx, h.name, cluster.DeletionBlocked)).WithTimeout(cluster.Patience).Should(And(
			HavePrefix("1 address would be left without a ServiceCIDR: "+h.blocker(0)+". "),
			ContainSubstring("Delete it, or create a ServiceCIDR that holds its address"),
			Not(ContainSubstring("more")), Not(ContainSubstring("these")), Not(ContainSubstring("their")),
		))
	}, withOperator("of one Service"))

	// An IPAddress of another manager is in the range. kube-controller-manager does not see it, and whoever manages it would be
	// left with an address outside of every range.
	DescribeTable("names the manager of an address that is no Service's", func(ctx SpecContext, where string) {
		c := clusters[where]
		for _, name := range []string{"foreign-ipv4", "foreign-ipv6"} {
			Eventually(c.Warning(ctx, name, cluster.DeletionBlocked)).WithTimeout(cluster.Patience).Should(And(
				HavePrefix("1 address would be left"), ContainSubstring(heldBy(name).foreign),
				ContainSubstring("widgets factory/gear"), ContainSubstring(somebody),
			))
		}
	}, withOperator("of either family"))

	// Addresses of other managers are taken, but not by Services.
	DescribeTable("counts the address of another manager as reserved", func(ctx SpecContext, where string) {
		c := clusters[where]
		for _, name := range []string{"foreign-ipv4", "foreign-ipv6"} {
			Expect(c.Metric(ctx, "addresses", "servicecidr", name, "band", "static", "state", "reserved")).To(BeEquivalentTo(1))
			Expect(c.Metric(ctx, "addresses", "servicecidr", name, "state", "allocated")).To(BeZero())
			Expect(c.Metric(ctx, "addresses", "servicecidr", name, "band", "dynamic", "state", "reserved")).To(BeZero())
		}
	}, withOperator("in its band"))

	// Two ranges that cover each other are deleted together: each alone could go, both cannot.
	DescribeTable("stays while it is the last one to cover a Service", func(ctx SpecContext, where string) {
		c := clusters[where]
		pastItsGrace(func(g Gomega) {
			for _, p := range pairs {
				g.Expect(p.covered(ctx, c)).To(BeTrue(), "%s: no ServiceCIDR is left for %s", p.name, p.address)
				g.Expect(c.Owner(ctx, p.address)).To(Equal(cluster.Namespace + "/" + p.name))
			}
		})
	}, withOperator("of two identical or nested ones"))

	DescribeTable("stays while something in it would be left without a range", func(ctx SpecContext, where string) {
		c := clusters[where]
		pastItsGrace(func(g Gomega) {
			for _, h := range helds {
				g.Expect(c.ServiceCIDR(ctx, h.name)).NotTo(BeNil(), h.name)
			}
		})
	}, withOperator("a Service or another manager's IPAddress"))

	// Nobody but its manager may change or delete an IPAddress.
	DescribeTable("leaves the address of another manager as it is", func(ctx SpecContext, where string) {
		for _, name := range []string{"foreign-ipv4", "foreign-ipv6"} {
			address := heldBy(name).foreign
			now := clusters[where].IPAddress(ctx, address)
			Expect(now).NotTo(BeNil())
			Expect(now.Labels).To(Equal(foreignAddress(address).Labels))
			Expect(now.ManagedFields).To(HaveLen(1), "somebody else has written it")
		}
	}, withOperator("of either family"))

	// The proof that the operator's finalizer was needed: the controller beside it would have let a range of every pair go.
	It("stays although kube-controller-manager has let go of it", func(ctx SpecContext) {
		c := clusters[operatorBeside]
		for _, p := range pairs {
			Eventually(func() []string { return heldByUpstream(ctx, c, p) }).WithTimeout(cluster.Patience).ShouldNot(HaveLen(2), p.name)
		}
	})

	// What the operator is for: the same deletions under kube-controller-manager alone.
	Context("without the operator", func() {
		It("vanishes under a Service together with the one that covers it", func(ctx SpecContext) {
			c := clusters[upstreamAlone]
			pastItsGrace(func(g Gomega) { g.Expect(c.Remaining(ctx, everyRange()...)).To(HaveLen(len(everyRange()))) })
			Expect(c.Upstream.Resume()).To(Succeed())
			// Of a pair whose first has gone before its second is judged, the second is safe. Which pairs are lost is chance.
			var lost pair
			Eventually(func() bool {
				i := slices.IndexFunc(pairs, func(p pair) bool { return !p.covered(ctx, c) })
				lost = pairs[max(0, i)]
				return i >= 0
			}).WithTimeout(cluster.Patience).Should(BeTrue())
			Expect(c.Owner(ctx, lost.address)).To(Equal(cluster.Namespace+"/"+lost.name), "the Service still holds its address")
		})

		It("vanishes under the IPAddress of another manager", func(ctx SpecContext) {
			c := clusters[upstreamAlone]
			for _, name := range []string{"foreign-ipv4", "foreign-ipv6"} {
				Eventually(func() any { return c.ServiceCIDR(ctx, name) }).WithTimeout(cluster.Patience).Should(BeNil(), name)
				Expect(c.IPAddress(ctx, heldBy(name).foreign)).NotTo(BeNil())
			}
		})

		It("never says what holds it", func(ctx SpecContext) {
			c := clusters[upstreamAlone]
			Eventually(func() metav1.Condition { return c.Condition(ctx, "crowded-ipv4", cluster.Ready) }).WithTimeout(cluster.Patience).
				Should(HaveField("Reason", networkingv1.ServiceCIDRReasonTerminating))
			pastItsGrace(func(g Gomega) {
				for _, condition := range c.ServiceCIDR(ctx, "crowded-ipv4").Status.Conditions {
					g.Expect(condition.Message).NotTo(ContainSubstring("shop-"), condition.Type)
				}
				g.Expect(c.Events(ctx).OnServiceCIDR("crowded-ipv4")).To(BeEmpty())
			})
		})
	})

	// The admin follows the advice, one Service after the other.
	DescribeTable("follows its blockers down to the last", func(ctx SpecContext, where string) {
		c, h := clusters[where], heldBy("crowded-ipv4")
		for _, name := range h.services[1:] {
			Expect(c.Client().CoreV1().Services(cluster.Namespace).Delete(ctx, name, metav1.DeleteOptions{})).To(Succeed())
		}
		Eventually(c.Warning(ctx, h.name, cluster.DeletionBlocked)).WithTimeout(cluster.Patience).
			Should(HavePrefix("1 address would be left without a ServiceCIDR: " + h.blocker(0) + ". "))
		Expect(c.Metric(ctx, "blocked_deletions", "servicecidr", h.name)).To(BeEquivalentTo(1))
	}, withOperator("when they go"))

	// The other half of the promise: a range that nothing needs any more is not held for ever.
	DescribeTable("goes as soon as what held it has gone", func(ctx SpecContext, where string) {
		c := clusters[where]
		for _, service := range c.Services(ctx) {
			if holdsARange(service.Name) {
				c.DeleteServices(ctx, &service)
			}
		}
		for _, h := range helds {
			if h.foreign != "" {
				c.DeleteIPAddress(ctx, h.foreign)
			}
		}
		Eventually(func() []string { return c.Remaining(ctx, everyRange()...) }).WithTimeout(cluster.Patience).Should(BeEmpty())
		Eventually(func() float64 { return c.Metric(ctx, "blocked_deletions") }).WithTimeout(cluster.Patience).Should(Equal(cluster.NoSeries))
	}, withOperator("all of them"))
})

// Events spares the specs the package's name.
type Events = cluster.Events
