package behaviour_test

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
)

// Two managers share a Lease: one works, one waits, and takes over when the first ends. The proof
// is a deleted IPAddress: it is restored, and only one of the two can have done it.
var _ = Describe("Two managers", Ordered, func() {
	var (
		c        *cluster.Cluster
		services []*corev1.Service
	)

	BeforeAll(func(ctx SpecContext) {
		c = cluster.Start(ctx, cluster.Options{WithoutOperator: true})
		for range 2 {
			c.StartOperator(ctx, "--leader-elect=true", "--leader-election-namespace=default")
		}
		services = c.CreateSettledServices(ctx, 3, framework.Numbered(cluster.Namespace, "web"))
	})

	restorations := func(ctx context.Context, manager *framework.Manager) float64 {
		GinkgoHelper()
		return cluster.MetricOf(ctx, manager, "clusterip_operator_drift_repaired_total", "type", "missing")
	}
	// takesOver wants the standby to do the work of the leader that has just ended.
	takesOver := func(ctx context.Context, standby *framework.Manager, service *corev1.Service, ended time.Time, within time.Duration) {
		GinkgoHelper()
		Expect(restorations(ctx, standby)).To(BeZero(), "it has worked before")
		restored(ctx, c, service, within)
		Expect(time.Since(ended)).To(BeNumerically("<", within))
		Eventually(restorations).WithArguments(ctx, standby).Should(BeEquivalentTo(1), "it counts what it has done")
		Expect(c.Leaders(ctx)).To(ConsistOf(standby))
	}

	It("never work at the same time", func(ctx SpecContext) {
		leader, standby := c.Leader(ctx)
		restored(ctx, c, services[0], cluster.Timeout)
		Eventually(restorations).WithArguments(ctx, leader).Should(BeEquivalentTo(1), "it counts what it has done")
		Expect(restorations(ctx, standby)).To(BeZero())
		Expect(standby.Healthy(ctx, "/readyz")).To(Succeed(), "one that waits is well")
		Consistently(c.Leaders).WithArguments(ctx).WithTimeout(3 * time.Second).Should(HaveLen(1))
	})

	It("change over in less than 15 seconds when the leader is asked to end", func(ctx SpecContext) {
		leader, standby := c.Leader(ctx)
		ended := time.Now()
		Expect(leader.Stop()).To(Succeed())
		Expect(leader.ExitCode()).To(BeZero())
		takesOver(ctx, standby, services[1], ended, 15*time.Second)
		Expect(leader.Start(ctx)).To(Succeed())
	})

	It("change over in less than 30 seconds when the leader is killed", Label("long"), func(ctx SpecContext) {
		leader, standby := c.Leader(ctx)
		ended := time.Now()
		Expect(leader.Kill()).To(Succeed())
		takesOver(ctx, standby, services[2], ended, 30*time.Second)
	})
})
