package lifecycle_test

import (
	"fmt"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"

	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
)

const (
	clients = 8
	rounds  = 25 // of five changes each: a thousand in all
)

// Eight clients change a cluster a thousand times: Services come and go, IPAddresses are deleted by hand, some of them
// right before their Service, and some appear for Services that will never exist. The manager is killed twice on the
// way, without warning, and started again while the changes go on. Afterwards
//
//   - nothing is lost: every Service that a client counts on has its addresses, each with an IPAddress that names it;
//   - nothing is double: no address has two Services, and no IPAddress is left without one when the grace is over;
//   - the new manager's account agrees with the cluster.
var _ = Describe("A manager that is killed in the middle of a thousand changes", Label("all"), Ordered, func() {
	var (
		c       *cluster.Cluster
		done    atomic.Int64 // changes so far
		workers [clients]*client
	)

	BeforeAll(func(ctx SpecContext) {
		c = cluster.Start(ctx, cluster.Options{})
		for i := range workers {
			workers[i] = newClient(c, i)
		}
	})

	It("is started again while the changes go on", func(ctx SpecContext) {
		var all errgroup.Group
		for _, worker := range workers {
			all.Go(func() error { return worker.work(ctx, &done) })
		}
		for _, at := range []int64{350, 700} {
			Eventually(done.Load).WithTimeout(3 * time.Minute).WithPolling(10 * time.Millisecond).Should(BeNumerically(">=", at))
			Expect(c.Operator.Kill()).To(Succeed())
			Eventually(done.Load).WithTimeout(3 * time.Minute).WithPolling(10 * time.Millisecond).Should(BeNumerically(">=", at+100))
			Expect(c.Operator.Start(ctx)).To(Succeed())
		}
		Expect(all.Wait()).To(Succeed())
		Expect(done.Load()).To(BeEquivalentTo(clients * rounds * 5))
	})

	// An IPAddress that nobody claims is left alone for a minute, so this takes one and a bit.
	It("leaves a cluster in which the relation is whole", func(ctx SpecContext) {
		Eventually(c.Breaches).WithArguments(ctx).WithTimeout(2 * time.Minute).WithPolling(time.Second).Should(BeEmpty())
		Consistently(c.Breaches).WithArguments(ctx).WithTimeout(3 * time.Second).Should(BeEmpty())
	})

	It("has lost no Service and no address of one", func(ctx SpecContext) {
		counted, found := map[string][]string{}, map[string][]string{}
		for _, worker := range workers {
			for name, service := range worker.live {
				counted[name] = service.Spec.ClusterIPs
			}
		}
		for _, service := range c.Services(ctx) {
			if service.Name != "kubernetes" {
				found[service.Name] = service.Spec.ClusterIPs
			}
		}
		Expect(found).To(Equal(counted))
		Expect(len(found)).To(BeNumerically(">", clients*rounds), "most of what was made should be there")
	})

	It("keeps an account that agrees with the cluster", func(ctx SpecContext) {
		Expect(c.Metric(ctx, "drift")).To(BeZero())
		Eventually(func(g Gomega) {
			// Band labels and gauges follow the last removal by moments.
			g.Expect(c.Metric(ctx, "allocated_ips", "servicecidr", "kubernetes")).To(BeEquivalentTo(len(c.IPAddresses(ctx))))
		}).WithTimeout(10 * time.Second).Should(Succeed())
	})

	It("restores what is deleted now as fast as ever", func(ctx SpecContext) {
		var some *corev1.Service
		for name := range workers[0].live {
			some = workers[0].live[name]
			break
		}
		Expect(some).NotTo(BeNil(), fmt.Sprint(workers[0].live))
		restored(ctx, c, some, 10*time.Second)
	})
})
