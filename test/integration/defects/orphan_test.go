package defects_test

import (
	"context"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
)

// Graces of a leaked IPAddress: an API server that is slow may need a minute to write the Service that belongs to it.
const (
	leastGrace = 60 * time.Second
	mostGrace  = 90 * time.Second
)

// leaked are IPAddresses whose Service does not exist, and how old they became.
var leaked = struct {
	sync.Mutex
	ages map[string]time.Duration
}{ages: map[string]time.Duration{"10.96.250.1": 0, "fd00:10:96::fa01": 0}}

// leakAddresses creates the leaked IPAddresses and watches their end, which is a minute away, while the specs go on.
func leakAddresses(ctx context.Context, c *cluster.Cluster) {
	GinkgoHelper()
	for address := range leaked.ages {
		ip := c.CreateIPAddress(ctx, framework.NewIPAddress(address, cluster.Namespace, "never-written"))
		events, err := c.Networking().IPAddresses().Watch(context.WithoutCancel(ctx), metav1.ListOptions{
			FieldSelector: "metadata.name=" + address, ResourceVersion: ip.ResourceVersion,
		})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(events.Stop)
		go func() {
			for event := range events.ResultChan() {
				if event.Type == watch.Deleted {
					leaked.Lock()
					leaked.ages[address] = time.Since(ip.CreationTimestamp.Time)
					leaked.Unlock()
				}
			}
		}()
	}
}

// An API server died between the IPAddress and the Service that it was about to write. Nobody will ever ask for the address, and it
// is given back, but not before every API server must have given up. The API server's own repair does the same, and is usually some
// seconds ahead of the operator; neither may come too early.
var _ = Describe("An IPAddress without its Service", func() {
	DescribeTable("lives for the minute in which the Service may still come, and not much longer", func(ctx SpecContext, address string) {
		age := func() time.Duration {
			leaked.Lock()
			defer leaked.Unlock()
			return leaked.ages[address]
		}
		Eventually(age).WithTimeout(mostGrace + cluster.Patience).ShouldNot(BeZero())
		Expect(age()).To(And(BeNumerically(">=", leastGrace), BeNumerically("<", mostGrace)))
	},
		Entry("in IPv4", "10.96.250.1"),
		Entry("in IPv6", "fd00:10:96::fa01"),
	)
})
