package defects_test

import (
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
)

// Services and their IPAddresses arrive on two watches, in no order. Who believes what he sees at first takes every burst of
// creations for drift and alarms people who have done nothing wrong.
var _ = Describe("A healthy burst of Services", Ordered, ContinueOnFailure, func() {
	const (
		size = 240
		// believed is longer than the operator doubts any kind of drift.
		believed = 7 * time.Second
	)
	var c *cluster.Cluster

	BeforeAll(func(ctx SpecContext) {
		c = cluster.Start(ctx, cluster.Options{})
		// The operator is ready before its first listings, and what it finds in those has not appeared. It labels nothing before they are complete.
		Eventually(c.Labels).WithArguments(ctx, "10.96.0.1").Should(HaveKey(cluster.BandLabel))
	})

	dual := func(name string) func(i int) *corev1.Service {
		return func(i int) *corev1.Service {
			return framework.NewService(cluster.Namespace, fmt.Sprintf("%s-%03d", name, i), framework.RequireDualStack())
		}
	}
	allocated := func(ctx SpecContext) func() float64 {
		return func() float64 { return c.Metric(ctx, "allocated_ips", "servicecidr", "kubernetes") }
	}
	expectNoAlarm := func(ctx SpecContext) {
		GinkgoHelper()
		Eventually(allocated(ctx)).Should(BeEquivalentTo(1), "only the Service kubernetes is left")
		Consistently(func(g Gomega) {
			g.Expect(c.Metric(ctx, "drift_detected_total")).To(BeZero())
			g.Expect(c.Events(ctx).Ours().Warnings()).To(BeEmpty())
		}).WithTimeout(believed).WithPolling(500 * time.Millisecond).Should(Succeed())
		AddReportEntry("warnings of the API server", len(c.Events(ctx).Warnings()), ReportEntryVisibilityFailureOrVerbose)
	}

	// Sixteen clients create 240 dual-stack Services as fast as they can and delete them as fast.
	It("is no drift", func(ctx SpecContext) {
		services := c.CreateServices(ctx, size, dual("burst"))
		c.DeleteServices(ctx, services...)
		expectNoAlarm(ctx)
		Expect(c.Metric(ctx, "allocation_total", "servicecidr", "kubernetes")).To(BeNumerically(">=", 2*size), "it has seen them all")
	})

	// The same, and the operator starts in the middle: its first listings are of different moments.
	It("is no drift for an operator that starts in the middle of it", func(ctx SpecContext) {
		Expect(c.Operator.Stop()).To(Succeed())
		half := c.CreateServices(ctx, size/2, dual("before"))
		done := make(chan []*corev1.Service)
		go func() {
			defer GinkgoRecover()
			defer close(done)
			rest := c.CreateServices(ctx, size, dual("during"))
			c.DeleteServices(ctx, half...)
			done <- rest
		}()
		Expect(c.Operator.Start(ctx)).To(Succeed())
		rest, ok := <-done
		Expect(ok).To(BeTrue())
		c.DeleteServices(ctx, rest...)
		expectNoAlarm(ctx)
	})

	// The silence above is worth something only if the same operator speaks when something is wrong.
	It("does not make the operator blind", func(ctx SpecContext) {
		robbed := c.CreateSettledService(ctx, "robbed")
		c.DeleteIPAddress(ctx, robbed.Spec.ClusterIP)
		Eventually(c.Metric).WithArguments(ctx, "drift_detected_total", "type", "missing").Should(BeEquivalentTo(1))
		Eventually(c.Metric).WithArguments(ctx, "drift_repaired_total", "type", "missing").Should(BeEquivalentTo(1))
		Expect(c.Metric(ctx, "drift_detected_total")).To(BeEquivalentTo(1))
	})
})
