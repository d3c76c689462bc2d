package soak_test

import (
	"context"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
)

// batch is how many Services createBatch creates.
const batch = 40

// A replica of each version, as during an update, with this version's manifests: docs/versions.md.
var _ = Describe("Replicas of two neighbouring versions", Label("soak"), func() {
	DescribeTable("work together", func(ctx SpecContext, weLead bool) {
		e, previous := startPrevious(ctx)
		e.Install(ctx, "")
		first, second := previous, ""
		if weLead {
			first, second = "", previous
		}
		leader := e.launch(ctx, first)
		e.WaitServing(ctx)
		e.divide(ctx)
		follower := e.launch(ctx, second)
		e.WaitServing(ctx)
		Expect(e.Leaders(ctx)).To(ConsistOf(leader))

		By("Services through the leader, then through the follower")
		e.leadAwayFrom(follower)
		old := e.createBatch(ctx, "through-leader")
		e.Admit(follower)
		e.leadAwayFrom(leader)
		decisions := func(result string) []float64 { return e.EachMetric(ctx, "admission_decisions_total", "result", result) }
		Expect(decisions(handedOn)).To(HaveEach(BeZero()))
		before := e.Unheard()
		e.createBatch(ctx, "through-follower")
		byItself := e.Unheard() - before // on a machine that stalled
		Expect(decisions(handedOn)).To(HaveExactElements(BeZero(), BeNumerically(">=", batch-byItself)))
		Expect(decisions(cluster.Filled)).To(HaveExactElements(BeNumerically(">=", 2*batch-byItself), BeNumerically("<=", byItself)), "the leader alone draws")

		By("what the leader writes, for Services that the follower is asked about")
		kept := func(purpose string) func() []string { return func() []string { return e.Kept(ctx, purpose) } }
		owner := e.Create(ctx, framework.NewService(tenant, "reserved", framework.RequireDualStack()))
		Expect(owner.Spec.ClusterIPs).To(ConsistOf(reserved))
		e.Create(ctx, framework.NewService(tenant, "more", func(s *corev1.Service) { s.Annotations = map[string]string{cluster.AdditionalFrom: "exclusive"} }))
		Eventually(kept(cluster.Additional)).ShouldNot(BeEmpty())
		e.DeleteServices(ctx, old...)
		Eventually(kept(cluster.Cooling)).ShouldNot(BeEmpty())

		By("the follower takes over")
		additional := kept(cluster.Additional)()
		e.RemoveReplica(leader)
		e.WaitServing(ctx)
		e.createBatch(ctx, "through-survivor")
		Expect(decisions(cluster.Filled)).To(HaveExactElements(BeNumerically(">=", batch)))
		e.DeleteServices(ctx, owner)
		Eventually(kept(cluster.Reservation)).Should(ContainElements(reserved))
		Expect(kept(cluster.Additional)()).To(ConsistOf(additional))

		o := judge(e.requests())
		Expect(o.unsteered).To(BeEmpty(), "%s", o)
		Expect(o.failedOpen).To(BeEmpty(), "%s", o)
		for _, replica := range []*framework.Manager{leader, follower} {
			Expect(unsteeredBy(replica)).To(BeZero(), replica.LogFile())
		}
		Expect(e.EachMetric(ctx, "admission_collisions_total")).To(HaveEach(BeZero()))
		Eventually(e.unsettled).WithArguments(ctx).WithTimeout(settling).WithPolling(time.Second).Should(BeEmpty())
		Expect(e.history(ctx).Faults).To(BeEmpty())
		e.ExpectNothingLeaked(ctx)
	},
		Entry("the version before leads", false),
		Entry("this version leads", true),
	)
})

// handedOn is a decision that the leader made for a follower.
const handedOn = "handed-on"

// leadAwayFrom leads the API server to the other replica. No client may create Services meanwhile.
func (e *environment) leadAwayFrom(replica *framework.Manager) {
	GinkgoHelper()
	e.Balancer.Remove(replica.WebhookAddress())
	e.Balancer.Cut()
	Eventually(e.Balancer.Ready).Should(HaveLen(1))
}

// createBatch creates Services of tenant and strangers from a few clients, of one or both families,
// and wants each to get addresses.
func (e *environment) createBatch(ctx context.Context, name string) []*corev1.Service {
	GinkgoHelper()
	services, err := framework.CreateServices(ctx, e.Client(), batch, 8, func(i int) *corev1.Service {
		return framework.NewService([]string{tenant, stranger}[i%2], fmt.Sprintf("%s-%d", name, i), framework.PreferDualStack())
	})
	Expect(err).NotTo(HaveOccurred())
	return services
}
