package defects_test

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
)

// leaked are IPAddresses whose Service does not exist, and how old they became.
var leaked = map[string]chan time.Duration{"10.96.250.1": make(chan time.Duration, 1), "fd00:10:96::fa01": make(chan time.Duration, 1)}

// leakAddresses creates the leaked IPAddresses and watches their end, which is a minute away, while the specs go on.
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

// An API server died between the IPAddress and the Service that it was about to write. Nobody will ever ask for the address, and it
// is given back, but not before every API server must have given up: one that is slow may need a minute. The API server's own repair does the same,
// and is usually some seconds ahead of the operator; neither may come too early.
var _ = It("An IPAddress without its Service lives for the minute in which the Service may still come, and not much longer", func(ctx SpecContext) {
	for _, age := range leaked {
		Eventually(age).WithTimeout(2 * time.Minute).Should(Receive(And(BeNumerically(">=", time.Minute), BeNumerically("<", 90*time.Second))))
	}
})
