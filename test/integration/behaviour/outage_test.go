package behaviour_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
)

// Eight clients change a cluster a thousand times: Services come and go, IPAddresses are deleted by
// hand, some right before their Service, and some appear for Services that never exist. Meanwhile
// the manager is killed twice and started again. Afterwards nothing is lost or double, and the new
// manager's figures agree with the cluster.
var _ = It("A manager that is killed in the middle of a thousand changes loses nothing and doubles nothing", Label("long"), func(ctx SpecContext) {
	const clients, rounds, steps = 8, 25, 5
	c := cluster.Start(ctx, cluster.Options{})
	var (
		done    atomic.Int64 // changes so far
		mu      sync.Mutex
		counted = map[string][]string{} // the Services that the API server has confirmed and not been asked to delete, and their addresses
	)
	create := func(ctx context.Context, name string, option framework.ServiceOption) error {
		service, err := c.TryService(ctx, name, option)
		if err == nil {
			mu.Lock()
			defer mu.Unlock()
			counted[name] = service.Spec.ClusterIPs
		}
		return err
	}
	remove := func(ctx context.Context, name string) error {
		mu.Lock()
		delete(counted, name)
		mu.Unlock()
		return c.Client().CoreV1().Services(cluster.Namespace).Delete(ctx, name, metav1.DeleteOptions{})
	}
	// lose deletes an IPAddress, unless it has not been restored since the last time.
	lose := func(ctx context.Context, address string) error {
		return client.IgnoreNotFound(c.Networking().IPAddresses().Delete(ctx, address, metav1.DeleteOptions{}))
	}
	// Only IPAddresses of the static band are deleted by hand: before one of the dynamic band is
	// restored, the API server could give its address to another Service for good.
	work := func(ctx context.Context, id int) error {
		for round := range rounds {
			n := id*rounds + round
			dynamic, fixed := fmt.Sprintf("dynamic-%d", n), fmt.Sprintf("fixed-%d", n)
			address, never := fmt.Sprintf("10.96.0.%d", 10+n), fmt.Sprintf("fd00:10:96::%x", 16+n)
			for i, step := range []func() error{
				func() error { return create(ctx, dynamic, framework.PreferDualStack()) },
				func() error { return create(ctx, fixed, framework.WithClusterIPs(address)) },
				func() error { return lose(ctx, address) },
				[]func() error{ // a Service goes that is whole, or one that has just lost its IPAddress, or the same IPAddress is lost again
					func() error { return remove(ctx, dynamic) }, func() error { return remove(ctx, fixed) }, func() error { return lose(ctx, address) },
				}[round%3],
				func() error { // as an API server does that dies before it writes the Service
					_, err := c.Networking().IPAddresses().Create(ctx, framework.NewIPAddress(never, cluster.Namespace, "never"), metav1.CreateOptions{})
					return err
				},
			} {
				if err := step(); err != nil {
					return fmt.Errorf("client %d, round %d, step %d: %w", id, round, i, err)
				}
				done.Add(1)
			}
		}
		return nil
	}

	var all errgroup.Group
	for id := range clients {
		all.Go(func() error { return work(ctx, id) })
	}
	for _, at := range []int64{350, 700} {
		Eventually(done.Load).WithTimeout(3 * time.Minute).Should(BeNumerically(">=", at))
		Expect(c.Operator.Kill()).To(Succeed())
		Eventually(done.Load).WithTimeout(3 * time.Minute).Should(BeNumerically(">=", at+100))
		Expect(c.Operator.Start(ctx)).To(Succeed())
	}
	Expect(all.Wait()).To(Succeed())
	Expect(done.Load()).To(BeEquivalentTo(clients * rounds * steps))

	// The operator leaves an IPAddress without a Service alone for a minute, so this takes longer.
	Eventually(c.Breaches).WithArguments(ctx).WithTimeout(2 * time.Minute).WithPolling(time.Second).Should(BeEmpty())
	found := map[string][]string{}
	for _, service := range c.Services(ctx) {
		found[service.Name] = service.Spec.ClusterIPs
	}
	delete(found, "kubernetes")
	Expect(found).To(Equal(counted))
	Expect(c.Metric(ctx, "drift")).To(BeZero())
	Eventually(c.Metric).WithArguments(ctx, "allocated_ips", "servicecidr", "kubernetes").Should(BeEquivalentTo(len(c.IPAddresses(ctx))))
	restored(ctx, c, c.CreateSettledService(ctx, "late"), 10*time.Second)
	Expect(c.Breaches(ctx)).To(BeEmpty(), "the manager has worked on since then, and has done no harm")
})

// The API server dies under the manager and comes back, then etcd under the API server. The same
// manager process waits and goes on with the same diligence.
var _ = Describe("A manager whose control plane fails", Label("all"), Ordered, func() {
	var (
		c       *cluster.Cluster
		service *corev1.Service
	)

	BeforeAll(func(ctx SpecContext) {
		c = cluster.Start(ctx, cluster.Options{})
		service = c.CreateSettledService(ctx, "web")
	})

	goesOn := func(ctx SpecContext, outage func()) {
		GinkgoHelper()
		restored(ctx, c, service, cluster.Timeout)
		before := c.Operator.Pid()
		outage()
		Expect(c.Operator.Running()).To(BeTrue(), c.Operator.LogTail(20))
		Expect(c.Operator.Pid()).To(Equal(before))
		// The watch may pause for half a minute after many failures.
		restored(ctx, c, service, cluster.Timeout)
		restored(ctx, c, service, 10*time.Second)
		// What failed during the outage is tried again ever more rarely.
		Eventually(c.Breaches).WithArguments(ctx).Should(BeEmpty())
	}

	It("survives the API server", Label("long"), func(ctx SpecContext) {
		goesOn(ctx, func() {
			Expect(c.API.Kill()).To(Succeed())
			Consistently(c.Operator.Running).WithTimeout(4 * time.Second).Should(BeTrue())
			cluster.StartAgain(ctx, c.API)
		})
	})

	// What happens while the manager cannot see is found when it sees again.
	It("survives etcd, and finds what was deleted meanwhile", func(ctx SpecContext) {
		other := c.CreateSettledService(ctx, "other")
		goesOn(ctx, func() {
			Expect(c.Operator.Pause()).To(Succeed())
			c.DeleteIPAddress(ctx, other.Spec.ClusterIP)
			Expect(c.Etcd.Kill()).To(Succeed())
			Expect(c.Operator.Resume()).To(Succeed())
			Consistently(c.Operator.Running).WithTimeout(4 * time.Second).Should(BeTrue())
			Expect(c.Etcd.Start(ctx)).To(Succeed())
			// The API server dials etcd ever more rarely, per resource, and refuses requests meanwhile.
			Eventually(func() error {
				_, err := c.Networking().IPAddresses().Get(ctx, service.Spec.ClusterIP, metav1.GetOptions{})
				return err
			}).Should(Succeed())
		})
		Expect(c.Owner(ctx, other.Spec.ClusterIP)).To(Equal("default/other"))
	})
})
