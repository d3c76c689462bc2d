package defects_test

import (
	"fmt"
	"maps"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
)

// withoutBand are the labels that the API server's allocator writes.
func withoutBand(ip *networkingv1.IPAddress) map[string]string {
	labels := maps.Clone(ip.Labels)
	delete(labels, cluster.BandLabel)
	return labels
}

// The API server's repair loop does its next full run three minutes after the start: these specs
// have their own young cluster.
var _ = Describe("The IPAddress of a Service", Ordered, ContinueOnFailure, func() {
	var (
		c    *cluster.Cluster
		bait *corev1.Service // whose lost IPAddress comes back: what was lost before it has been looked at
	)

	BeforeAll(func(ctx SpecContext) {
		c = cluster.Start(ctx, cluster.Options{Options: framework.Options{FeatureGates: framework.WithoutDualWrite}})
		bait = c.CreateSettledService(ctx, "bait")
	})

	name := func(service *corev1.Service) string { return service.Namespace + "/" + service.Name }

	// notes of the operator's events about a Service.
	notes := func(ctx SpecContext, service *corev1.Service, reason string) func() []string {
		return func() []string { return c.Events(ctx).Ours().OnService(service.Name).For(reason).Notes() }
	}

	// expectOnce waits for exactly one event about each of the addresses.
	expectOnce := func(ctx SpecContext, service *corev1.Service, reason string, addresses ...string) {
		GinkgoHelper()
		var wanted []any
		for _, address := range addresses {
			wanted = append(wanted, ContainSubstring(address))
		}
		Eventually(notes(ctx, service, reason)).Should(ConsistOf(wanted...))
		Consistently(func() int { return c.Events(ctx).Ours().OnService(service.Name).For(reason).Count() }).
			WithTimeout(2 * time.Second).Should(Equal(len(addresses)))
	}

	// Until a deleted IPAddress is back, the API server can give its address to another Service.
	It("is back when somebody deletes it", func(ctx SpecContext) {
		owner := c.CreateSettledService(ctx, "restored", framework.RequireDualStack())
		before := map[string]*networkingv1.IPAddress{}
		for _, address := range owner.Spec.ClusterIPs {
			Eventually(c.Labels).WithArguments(ctx, address).Should(HaveKey(cluster.BandLabel))
			before[address] = c.IPAddress(ctx, address)
		}
		for _, address := range owner.Spec.ClusterIPs {
			c.DeleteIPAddress(ctx, address)
			start := time.Now()
			Eventually(c.IPAddress).WithArguments(ctx, address).WithPolling(10*time.Millisecond).ShouldNot(BeNil(), address)
			AddReportEntry(address+" was back after", time.Since(start), ReportEntryVisibilityFailureOrVerbose)

			after := c.IPAddress(ctx, address)
			Expect(after.UID).NotTo(Equal(before[address].UID))
			Expect(after.Spec).To(Equal(before[address].Spec))
			Expect(withoutBand(after)).To(Equal(withoutBand(before[address])), "as the API server writes them")
		}
		expectOnce(ctx, owner, "ClusterIPNotAllocated", owner.Spec.ClusterIPs...)
		Eventually(c.Metric).WithArguments(ctx, "drift").Should(BeZero(), "what is repaired is wrong no longer")
		for _, address := range owner.Spec.ClusterIPs {
			Eventually(c.Labels).WithArguments(ctx, address).Should(Equal(before[address].Labels), "its band too")
		}
	})

	// 1. A Service's IPAddress is deleted; before it is restored another Service asks for the address.
	// 2. The API server gives it away: both Services hold it, and the IPAddress names the younger.
	// 3. The operator gives it back to the older and tells the younger, which cannot be changed.
	// 4. The younger is deleted as advised. The API server deletes the IPAddress: it must come back.
	DescribeTable("goes back to the older of two Services that hold its address", func(ctx SpecContext, family corev1.IPFamily) {
		owner := c.CreateSettledService(ctx, "owner-"+lower(family), framework.WithFamilies(family))
		address := owner.Spec.ClusterIP
		Eventually(func() bool { return time.Now().Truncate(time.Second).After(owner.CreationTimestamp.Time) }).Should(BeTrue(), "ages are told in seconds")

		var thief *corev1.Service
		c.Paused(func() {
			c.DeleteIPAddress(ctx, address)
			thief = c.CreateSettledService(ctx, "thief-"+lower(family), framework.WithFamilies(family), framework.WithClusterIPs(address))
			Expect(c.Owner(ctx, address)).To(Equal(name(thief)), "the defect that this is about")
		})

		Eventually(c.Owner).WithArguments(ctx, address).Should(Equal(name(owner)))
		expectOnce(ctx, thief, "ClusterIPAlreadyAllocated", address)
		Expect(notes(ctx, thief, "ClusterIPAlreadyAllocated")()).To(HaveExactElements(And(ContainSubstring("belongs to another Service"), Not(ContainSubstring(name(owner))))))
		expectOnce(ctx, owner, "ClusterIPNotAllocated", address)
		Expect(notes(ctx, owner, "ClusterIPAlreadyAllocated")()).To(BeEmpty())
		Expect(c.Owner(ctx, address)).To(Equal(name(owner)), "and nobody has taken it back")
		Expect(c.Metric(ctx, "drift", "type", "duplicate")).To(BeEquivalentTo(1), "as long as there are two")

		c.DeleteServices(ctx, thief)
		Eventually(c.Owner).WithArguments(ctx, address).Should(Equal(name(owner)))
		Eventually(c.Metric).WithArguments(ctx, "drift").Should(BeZero())
		Expect(c.Owner(ctx, address)).To(Equal(name(owner)))
	},
		Entry("in IPv4", corev1.IPv4Protocol),
		Entry("in IPv6", corev1.IPv6Protocol),
	)

	// No Service has to ask for the address: the API server draws addresses without IPAddress. Here
	// only this one is left; in a range with many free ones each is equally likely.
	It("is drawn for another Service while it is away", Label("long"), func(ctx SpecContext) {
		c := cluster.Start(ctx, cluster.Options{Options: framework.Options{ServiceClusterIPRange: "10.97.0.0/28,fd00:97::/124"}})
		owner := c.CreateSettledService(ctx, "owner", framework.RequireDualStack())
		for _, family := range []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol} {
			for err, i := error(nil), 0; err == nil; i++ {
				_, err = c.Try(ctx, cluster.Single(cluster.Namespace, fmt.Sprintf("neighbour-%s-%d", lower(family), i), family))
				Expect(err).To(Or(Succeed(), MatchError(ContainSubstring("range is full"))))
			}
		}

		var thief *corev1.Service
		c.Paused(func() {
			for _, address := range owner.Spec.ClusterIPs {
				c.DeleteIPAddress(ctx, address)
			}
			thief = c.CreateServiceOnceFree(ctx, "thief", framework.RequireDualStack())
			Expect(thief.Spec.ClusterIPs).To(Equal(owner.Spec.ClusterIPs), "the defect that this is about")
		})
		for _, address := range owner.Spec.ClusterIPs {
			Eventually(c.Owner).WithArguments(ctx, address).Should(Equal(name(owner)))
		}
		Eventually(func() []string {
			return c.Events(ctx).Ours().OnService("thief").For("ClusterIPAlreadyAllocated").Notes()
		}).
			Should(ContainElement(ContainSubstring("belongs to another Service, which has the better right to it")))
	})

	// The IPAddress was replaced by one with another parent. A parent cannot be changed, so it is
	// written anew; upstream deletes some of these and restores none for three minutes.
	DescribeTable("names its Service again when somebody has pointed it elsewhere", func(ctx SpecContext, service string, parent networkingv1.ParentReference) {
		owner := c.CreateSettledService(ctx, service, framework.RequireDualStack())
		c.Paused(func() {
			for _, address := range owner.Spec.ClusterIPs {
				c.DeleteIPAddress(ctx, address)
				c.CreateIPAddress(ctx, framework.NewIPAddress(address, "", "", framework.WithParent(parent)))
			}
		})
		for _, address := range owner.Spec.ClusterIPs {
			Eventually(c.Owner).WithArguments(ctx, address).Should(Equal(name(owner)), address)
		}
		expectOnce(ctx, owner, "ClusterIPNotAllocated", owner.Spec.ClusterIPs...)
	},
		Entry("at another Service", "pointed-at-service", networkingv1.ParentReference{Resource: "services", Namespace: "default", Name: "kubernetes"}),
		Entry("at a Service that does not exist", "pointed-at-nothing", networkingv1.ParentReference{Resource: "services", Namespace: "default", Name: "nothing"}),
		Entry("at something that is no Service", "pointed-at-pod", networkingv1.ParentReference{Resource: "pods", Namespace: "default", Name: "web-0"}),
	)

	// The API server finds its own IPAddresses by labels: without them a live address has no manager.
	// They are restored in place, so that the address is never free and the object the same.
	It("gets its labels back in place", func(ctx SpecContext) {
		type loss struct{ what, patch string }
		losses := []loss{
			{"all labels", `{"metadata":{"labels":null}}`},
			{"nobody is the manager", `{"metadata":{"labels":{"ipaddress.kubernetes.io/managed-by":""}}}`},
			{"somebody else is the manager", `{"metadata":{"labels":{"ipaddress.kubernetes.io/managed-by":"widgets.example.com"}}}`},
			{"it is said to be the operator's",
				`{"metadata":{"labels":{"ipaddress.kubernetes.io/managed-by":"clusterip-operator.io","clusterip-operator.io/purpose":"cooling"}}}`},
			{"no family", `{"metadata":{"labels":{"ipaddress.kubernetes.io/ip-family":null}}}`},
		}
		services := c.CreateSettledServices(ctx, len(losses), func(i int) *corev1.Service {
			return framework.NewService(cluster.Namespace, "unlabelled-"+string(rune('a'+i)), framework.RequireDualStack())
		})
		before := map[string]*networkingv1.IPAddress{}
		eachLoss := func(do func(l loss, address string)) {
			for i, l := range losses {
				for _, address := range services[i].Spec.ClusterIPs {
					do(l, address)
				}
			}
		}
		eachLoss(func(l loss, address string) {
			Eventually(c.Labels).WithArguments(ctx, address).Should(HaveKey(cluster.BandLabel))
			before[address] = c.IPAddress(ctx, address)
		})

		c.Paused(func() {
			eachLoss(func(l loss, address string) { c.PatchIPAddress(ctx, address, l.patch) })
			c.DeleteIPAddress(ctx, bait.Spec.ClusterIP)
			Expect(c.PatchService(ctx, bait.Name, `{"metadata":{"annotations":{"example.com/touched":"yes"}}}`)).Error().NotTo(HaveOccurred())
			Eventually(c.Owner).WithArguments(ctx, bait.Spec.ClusterIP).Should(Equal(name(bait)), "the API server's own repair")
			eachLoss(func(l loss, address string) {
				Expect(c.Labels(ctx, address)).NotTo(Equal(before[address].Labels), "%s: the API server does not repair it", l.what)
			})
		})
		eachLoss(func(l loss, address string) {
			Eventually(c.Labels).WithArguments(ctx, address).Should(Equal(before[address].Labels), l.what)
			// One that is still busy with the new Service makes its IPAddress anew (recreateIPAddress in
			// repairip.go). The operator signs what it creates otherwise.
			Expect(c.IPAddress(ctx, address)).To(Or(HaveField("UID", before[address].UID), HaveField("ManagedFields", ContainElement(HaveField("Manager", "kube-apiserver")))), l.what)
		})
	})

	// 1. A ServiceCIDR is removed by force, finalizers and all, under a Service. 2. The Service is
	// told: it is in no range, so a lost IPAddress is not restored. 3. The range is back: all is well.
	It("out of every range is reported, and in order when the range is back", func(ctx SpecContext) {
		const v4, v6 = "10.116.0.40", "fd00:116::40"
		c.CreateServiceCIDR(ctx, "removed", "10.116.0.0/24", "fd00:116::/120")
		c.WaitLookedAfter(ctx, "removed")
		stranded := c.HoldAddress(ctx, "stranded", v4, v6)
		c.WithdrawRanges(ctx, "removed")

		expectOnce(ctx, stranded, "ClusterIPOutOfRange", v4, v6)
		Expect(c.Metric(ctx, "drift", "type", "out_of_range")).To(BeEquivalentTo(1), "one Service")
		c.DeleteIPAddress(ctx, v4)
		c.DeleteIPAddress(ctx, bait.Spec.ClusterIP)
		Eventually(c.Owner).WithArguments(ctx, bait.Spec.ClusterIP).Should(Equal(name(bait)))
		Expect(c.IPAddress(ctx, v4)).To(BeNil())

		c.CreateServiceCIDR(ctx, "removed", "10.116.0.0/24", "fd00:116::/120")
		Eventually(c.Owner).WithArguments(ctx, v4).Should(Equal(name(stranded)))
		Eventually(c.Metric).WithArguments(ctx, "drift").Should(BeZero())
		Expect(c.Breaches(ctx)).To(BeEmpty())
	})
})

func lower(family corev1.IPFamily) string { return strings.ToLower(string(family)) }
