package defects_test

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
)

// Services and their IPAddresses arrive on two watches, in no order. An operator that believes what
// it sees first takes each burst of creations for drift and gives false alarms. Here it also starts
// in the middle of a burst: its first listings are of different moments.
var _ = It("A healthy burst of Services is no drift, and does not make the operator blind", Label("long"), func(ctx SpecContext) {
	const size = 240
	c := cluster.Start(ctx, cluster.Options{})
	// The operator is ready before its first listings, whose contents do not count as new. It labels
	// nothing before they are complete.
	Eventually(c.Labels).WithArguments(ctx, "10.96.0.1").Should(HaveKey(cluster.BandLabel))
	named := func(name string) func(i int) *corev1.Service {
		return framework.Numbered(cluster.Namespace, name, framework.RequireDualStack())
	}
	c.DeleteServices(ctx, c.CreateServices(ctx, size, named("burst"))...)
	allocated := func() float64 {
		c.FreeLeaked(ctx)
		return c.Metric(ctx, "allocated_ips", "servicecidr", "kubernetes")
	}
	Eventually(allocated).Should(BeEquivalentTo(1), "only the Service kubernetes is left")
	Expect(c.Metric(ctx, "allocation_total", "servicecidr", "kubernetes")).To(BeNumerically(">=", 2*size), "it has seen them all")
	Expect(c.Metric(ctx, "drift_detected_total")).To(BeZero())

	Expect(c.Operator.Stop()).To(Succeed())
	half := c.CreateServices(ctx, size/2, named("before"))
	done := make(chan []*corev1.Service)
	go func() {
		defer GinkgoRecover()
		defer close(done)
		rest := c.CreateServices(ctx, size, named("during"))
		c.DeleteServices(ctx, half...)
		done <- rest
	}()
	Expect(c.Operator.Start(ctx)).To(Succeed())
	rest, ok := <-done
	Expect(ok).To(BeTrue())
	c.DeleteServices(ctx, rest...)
	Eventually(allocated).Should(BeEquivalentTo(1))
	Consistently(func(g Gomega) { // for longer than the operator doubts any kind of drift
		g.Expect(c.Metric(ctx, "drift_detected_total")).To(BeZero())
		g.Expect(c.Events(ctx).Ours().Warnings()).To(BeEmpty())
	}).WithTimeout(7 * time.Second).WithPolling(500 * time.Millisecond).Should(Succeed())

	c.DeleteIPAddress(ctx, c.CreateSettledService(ctx, "robbed").Spec.ClusterIP)
	for _, name := range []string{"drift_detected_total", "drift_repaired_total"} {
		Eventually(c.Metric).WithArguments(ctx, name, "type", "missing").Should(BeEquivalentTo(1))
	}
})

// leaked are IPAddresses whose Service does not exist, and how old they became.
var leaked = map[string]chan time.Duration{"10.96.250.1": make(chan time.Duration, 1), "fd00:10:96::fa01": make(chan time.Duration, 1)}

// leakAddresses creates the leaked IPAddresses and watches for their end, a minute later.
func leakAddresses(ctx context.Context, c *cluster.Cluster) {
	GinkgoHelper()
	for address, age := range leaked {
		ip := c.CreateIPAddress(ctx, framework.NewIPAddress(address, cluster.Namespace, "never-written"))
		events, err := c.Networking().IPAddresses().Watch(context.WithoutCancel(ctx), metav1.ListOptions{
			FieldSelector: "metadata.name=" + address, ResourceVersion: ip.ResourceVersion,
		})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(events.Stop)
		go func() {
			for event := range events.ResultChan() {
				if event.Type == watch.Deleted {
					age <- time.Since(ip.CreationTimestamp.Time)
				}
			}
		}()
	}
}

// An API server died between writing the IPAddress and the Service. The address is given back, but
// only when every API server must have given up: a slow one may need a minute. The API server's
// repair is usually seconds ahead of the operator's; neither may come too early.
var _ = It("An IPAddress without its Service lives for the minute in which the Service may still come, and not much longer", Label("long"), func(ctx SpecContext) {
	for _, age := range leaked {
		Eventually(age).WithTimeout(2 * time.Minute).Should(Receive(And(BeNumerically(">=", time.Minute), BeNumerically("<", 90*time.Second))))
	}
})
