package steering_test

import (
	"context"
	"fmt"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
)

// Enforced by the webhook alone; controllers/enforcement has the API server do the same.
var _ = inOrder("Ranges that are given by request only", func() {
	const asked4, asked6 = "10.104.0.0/24", "fd00:104::/120"

	BeforeAll(func(ctx SpecContext) {
		c.OfferRange(ctx, "asked", nil, asked4, asked6)
		c.Program(ctx, "asked", `{serviceCIDRs: [asked], allocation: ByRequest, enforcement: Webhook, additionalAddresses: true,
			reservations: [{name: four, address: 10.104.0.9, for: plain/reserved}, {name: six, address: "fd00:104::9", for: plain/reserved}]}`)
	})

	It("have none drawn", func(ctx SpecContext) {
		all := fill(ctx, dynamics(default4)/2, func(i int) *corev1.Service { return cluster.Dual("plain", fmt.Sprint("drawn-", i)) })
		for _, cidr := range []string{asked4, asked6} {
			Expect(cluster.In(cidr, all...)).To(BeEmpty())
		}
	})

	It("give a chosen one, a reserved one and an additional one", func(ctx SpecContext) {
		c.Create(ctx, cluster.Asking("plain", "chosen", "10.104.0.20", "fd00:104::20"))
		c.Create(ctx, cluster.Asking("red", "chosen", "fd00:104::21"))
		reserved := c.Create(ctx, cluster.Dual("plain", "reserved"))
		Expect(reserved.Spec.ClusterIPs).To(ConsistOf("10.104.0.9", "fd00:104::9"))
		more := cluster.Dual("plain", "more")
		more.Annotations = map[string]string{v1alpha1.AnnotationAdditionalFrom: "asked"}
		more = c.Create(ctx, more)
		for _, cidr := range []string{asked4, asked6} {
			Expect(cluster.In(cidr, more)).To(BeEmpty())
		}
		Eventually(c.Kept).WithArguments(ctx, v1alpha1.PurposeAdditional).Should(ConsistOf(inRange(asked4), inRange(asked6)))
	})

	It("refuse whom their policy sends nowhere else, and say to choose", func(ctx SpecContext) {
		c.Program(ctx, "green", "{serviceCIDRs: [asked], namespaceSelector: {matchLabels: {tenant: green}}, onFull: Fail}")
		for _, family := range []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol} {
			Expect(c.ExpectRefused(ctx, "green", cluster.Single("green", "drawn", family))).To(And(ContainSubstring("by request only"), ContainSubstring("choose one in spec.clusterIPs")))
		}
		c.ExpectNoted(ctx, "green", `by request only by ServiceCIDRPolicy "asked"`)
		c.Create(ctx, cluster.Asking("green", "chosen", "10.104.0.30", "fd00:104::30"))
	})
})

// Clients create Services all the while, into a range that is cordoned meanwhile.
var _ = inOrder("A range that is cordoned under load", func() {
	const old4, old6, new4, new6 = "10.105.0.0/22", "fd00:105::/118", "10.106.0.0/22", "fd00:106::/118"
	var older []*corev1.Service // that have addresses of the old range

	BeforeAll(func(ctx SpecContext) {
		c.OfferRange(ctx, "old", map[string]string{"pool": "red"}, old4, old6)
		c.OfferRange(ctx, "new", map[string]string{"pool": "red"}, new4, new6)
		c.Program(ctx, "red", "{serviceCIDRSelector: {matchLabels: {pool: red}}, namespaceSelector: {matchLabels: {tenant: red}}, onFull: Fail}")
		c.Program(ctx, "old", `{serviceCIDRs: [old], allocation: Automatic, enforcement: Webhook, priority: -10, additionalAddresses: true,
			reservations: [{name: four, address: 10.105.0.9, for: red/reserved}, {name: six, address: "fd00:105::9", for: red/reserved}]}`)
		older = append(older, c.Create(ctx, cluster.Asking("red", "chosen", "10.105.0.20", "fd00:105::20")))
		asking := cluster.Dual("red", "with-more")
		asking.Annotations = map[string]string{v1alpha1.AnnotationAdditionalFrom: "old"}
		c.Create(ctx, asking)
		Eventually(c.Kept).WithArguments(ctx, v1alpha1.PurposeAdditional).Should(ConsistOf(inRange(old4), inRange(old6)))
	})

	It("gives out nothing once the replicas have seen that", func(ctx SpecContext) {
		type answer struct {
			asked   time.Time
			service *corev1.Service
			err     error
		}
		var (
			mu      sync.Mutex
			answers []answer
			all     sync.WaitGroup
		)
		count := func() int {
			mu.Lock()
			defer mu.Unlock()
			return len(answers)
		}
		running, end := context.WithCancel(ctx)
		defer end()
		for worker := range 6 {
			all.Go(func() {
				for i := 0; running.Err() == nil; i++ {
					asked := time.Now()
					s, err := c.Try(ctx, cluster.Dual("red", fmt.Sprintf("load-%d-%d", worker, i)))
					mu.Lock()
					answers = append(answers, answer{asked, s, err})
					mu.Unlock()
				}
			})
		}
		Eventually(count).Should(BeNumerically(">", 40))
		Expect(c.TryPolicyChange(ctx, "old", "{allocation: Cordoned}")).To(Succeed())
		written := time.Now()
		c.WaitProgrammed(ctx, "old")
		cordoned, atCordon := time.Now(), count()
		Eventually(count).Should(BeNumerically(">", atCordon+40))
		end()
		all.Wait()
		late, given := 0, 0
		for _, one := range answers {
			Expect(one.err).NotTo(HaveOccurred(), "the other range has room")
			in := len(cluster.In(old4, one.service)) + len(cluster.In(old6, one.service))
			if in > 0 {
				older, given = append(older, one.service), given+1
			}
			if one.asked.After(cordoned) {
				late++
				Expect(in).To(BeZero(), "%s, %s after the write", one.service.Spec.ClusterIPs, one.asked.Sub(written))
			}
		}
		AddReportEntry("creations", fmt.Sprintf("%d of the old range before, %d asked for later, from %s after the write on", given, late, cordoned.Sub(written)))
		Expect(given).To(BeNumerically(">", 5), "nothing came from the old range before")
		Expect(late).To(BeNumerically(">", 20), "hardly any Service was created later")
		c.ExpectConsistent(ctx)
	})

	It("refuses what is chosen there, with what to do, and no additional address", func(ctx SpecContext) {
		for _, addresses := range [][]string{{"10.105.0.30"}, {"fd00:105::30"}, {"10.105.0.30", "fd00:105::30"}, {"10.106.0.30", "fd00:105::30"}} {
			for _, namespace := range []string{"red", "plain"} {
				Expect(c.ExpectRefused(ctx, "old", cluster.Asking(namespace, "late", addresses...))).To(And(
					ContainSubstring("lies in a range that is cordoned"), ContainSubstring("choose another address, leave the choice to the cluster, or ask an administrator")))
			}
		}
		asking := cluster.Dual("red", "late")
		asking.Annotations = map[string]string{v1alpha1.AnnotationAdditionalFrom: "old"}
		Expect(c.ExpectRefused(ctx, "old", asking)).To(ContainSubstring("ServiceCIDR old is cordoned"))
		c.ExpectNoted(ctx, "old", "allocation: Cordoned")
	})

	It("keeps reserved addresses, and gives them to no Service", func(ctx SpecContext) {
		Expect(c.KeptBy(ctx, "old")).To(ContainElements("10.105.0.9", "fd00:105::9"))
		reserved := c.Create(ctx, cluster.Dual("red", "reserved"))
		Expect(cluster.In(new4, reserved)).To(HaveLen(1))
		Expect(cluster.In(new6, reserved)).To(HaveLen(1))
		c.DeleteServices(ctx, reserved)
		c.ExpectRefused(ctx, "old", cluster.Asking("red", "reserved", "10.105.0.9", "fd00:105::9"))
	})

	It("leaves what exists as it is, and lets it be changed", func(ctx SpecContext) {
		for _, s := range older[:min(len(older), 10)] {
			changed := change(ctx, s, func(s *corev1.Service) {
				s.Labels = map[string]string{"changed": "yes"}
				s.Spec.Ports[0].Port++
			})
			Expect(changed.Spec.ClusterIPs).To(Equal(s.Spec.ClusterIPs))
		}
		Expect(c.Kept(ctx, v1alpha1.PurposeAdditional)).To(ConsistOf(inRange(old4), inRange(old6)))
		c.PatchServices(ctx, `{"metadata":{"labels":{"changed":"twice"}}}`, older...)
	})

	It("is no alarm, and opens again", func(ctx SpecContext) {
		Eventually(c.Condition).WithArguments(ctx, "old", v1alpha1.ConditionNearlyFull).Should(HaveField("Reason", "Cordoned"))
		for _, cidr := range []string{old4, old6} { // by which alerts leave it out
			Eventually(c.Metric).WithArguments(ctx, "cordoned", "servicecidr", "old", "cidr", cidr).Should(BeEquivalentTo(1))
		}
		Expect(c.Metric(ctx, "cordoned")).To(BeEquivalentTo(2), "of these ranges alone")
		Expect(c.TryPolicyChange(ctx, "old", "{allocation: null}")).To(Succeed())
		c.WaitProgrammed(ctx, "old")
		Eventually(c.Condition).WithArguments(ctx, "old", v1alpha1.ConditionNearlyFull).Should(HaveField("Reason", Not(Equal("Cordoned"))))
		Eventually(c.Metric).WithArguments(ctx, "cordoned").Should(BeEquivalentTo(cluster.NoSeries))
		c.Create(ctx, cluster.Asking("red", "again", "10.105.0.30", "fd00:105::30"))
	})
})

// A request that found no address is answered when one comes free; if the range is cordoned
// meanwhile, it is not given out any more.
var _ = inOrder("A Service that waits for room in a range", func() {
	It("is given none that comes free after the range is cordoned", func(ctx SpecContext) {
		const tiny4, tiny6 = "10.107.0.0/29", "fd00:107::/125"
		c.OfferRange(ctx, "tiny", nil, tiny4, tiny6)
		c.Program(ctx, "green", "{serviceCIDRs: [tiny], namespaceSelector: {matchLabels: {tenant: green}}, onFull: Fail}")
		var all []*corev1.Service
		for i := range size(tiny6) {
			all = append(all, c.Create(ctx, cluster.Single("green", fmt.Sprint("six-", i), corev1.IPv6Protocol)))
		}
		Expect(c.TryPolicyChange(ctx, "green", "{allocation: Cordoned}")).To(Succeed())
		cordoned := time.Now()
		c.DeleteServices(ctx, all[0])
		Eventually(func() bool { return time.Since(cordoned) > time.Second }).Should(BeTrue())
		for _, family := range []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol} {
			Expect(c.ExpectRefused(ctx, "green", cluster.Single("green", "late", family))).To(ContainSubstring("its range is cordoned"))
		}
		Expect(suite.Must(tryChange(ctx, all[1], func(s *corev1.Service) { s.Labels = map[string]string{"changed": "yes"} })).Spec.ClusterIPs).To(Equal(all[1].Spec.ClusterIPs))
	})
})
