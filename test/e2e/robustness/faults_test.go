//go:build linux

package robustness_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	"github.com/clusterip-operator/clusterip-operator/test/e2e/internal/faults"
	"github.com/clusterip-operator/clusterip-operator/test/e2e/internal/stage"
	"github.com/clusterip-operator/clusterip-operator/test/framework/network"
)

const restoreFailures = "sync_proxy_rules_iptables_restore_failures_total"

var _ = both("An agent whose iptables fails", func(the func() *world) {
	var w *world
	BeforeEach(func(ctx SpecContext) {
		w = the()
		w.reset(ctx)
	})
	failures := func(ctx context.Context) float64 { return w.Metric(ctx, restoreFailures) }

	DescribeTable("loses neither a change nor a connection", func(ctx SpecContext, order func(int) error) {
		lostNothing := w.traffic(ctx)
		before := failures(ctx)
		Expect(order(4)).To(Succeed())
		service := w.Serve(ctx, "in-trouble", w.servers())
		w.Endpoints(ctx, w.busy, stage.Endpoint{Of: w.Pod2, Extra: 9})
		w.Served(service)
		w.answersFrom(w.Pod2, 9)
		// When all is written and the agent sees that, there is no reason to run a program once more. The rules are in force before the
		// program that wrote them says that it failed.
		Eventually(w.programs.Left).WithTimeout(stage.Soon).Should(BeNumerically("<=", 2))
		Eventually(func() float64 { return failures(ctx) }).WithTimeout(stage.Soon).Should(BeNumerically(">=", before+2))
		Expect(w.programs.NoMore()).To(Succeed())
		w.Delete(ctx, service.Name)
		lostNothing()
	},
		Entry("when it refuses", func(n int) error { return the().programs.Refuse(n) }),
		Entry("when it works and says that it failed", func(n int) error { return the().programs.Forget(n) }),
	)

	It("ends where it would have ended without, after many changes and failures at random", Label("soak"), func(ctx SpecContext) {
		before := w.settled(ctx)
		lostNothing := w.traffic(ctx)
		random := rand.New(rand.NewPCG(uint64(GinkgoRandomSeed()), 0)) //nolint:gosec // a test's
		var services []*corev1.Service
		for i := range 24 {
			if w.programs.Left() == 0 { // the pause after a failure grows with each that follows
				Expect(w.programs.Refuse(random.IntN(2))).To(Succeed())
				Expect(w.programs.Forget(random.IntN(2))).To(Succeed())
			}
			services = append(services, w.Serve(ctx, fmt.Sprintf("stormy-%d", i), w.servers()[:1+i%3]))
			if i > 8 && i%2 == 0 {
				w.Delete(ctx, services[i-8].Name)
			}
			time.Sleep(100 * time.Millisecond)
		}
		for i, service := range services {
			if i >= 2 && i < 16 && i%2 == 0 {
				w.gone(service.Spec.ClusterIPs...)
				continue
			}
			w.Served(service)
			w.Delete(ctx, service.Name)
		}
		Eventually(func() string { return before.Diff(w.ours(ctx)) }).WithTimeout(stage.Soon).Should(BeEmpty())
		lostNothing()
	})

	It("is unhealthy as long as it cannot keep up", Label("soak"), func(ctx SpecContext) {
		Expect(w.programs.Refuse(1000)).To(Succeed())
		w.Endpoints(ctx, w.busy, w.servers()[2])
		Expect(w.Agent.Healthy(ctx, "/healthz")).To(Succeed(), "not at once")
		Eventually(func() error { return w.Agent.Healthy(ctx, "/healthz") }).WithTimeout(100 * time.Second).ShouldNot(Succeed())
		Expect(w.programs.NoMore()).To(Succeed())
		Eventually(func() error { return w.Agent.Healthy(ctx, "/healthz") }).WithTimeout(40 * time.Second).Should(Succeed())
		w.answersFrom(w.RemotePod, 0)
	})
}, "all")

var _ = both("An agent beside another process that holds the xtables lock for ten seconds", func(the func() *world) {
	var w *world
	BeforeEach(func(ctx SpecContext) {
		w = the()
		w.reset(ctx)
	})

	It("waits where it must, neither fails nor hangs, and catches up", func(ctx SpecContext) {
		lostNothing := w.traffic(ctx)
		failed := w.Metric(ctx, restoreFailures)
		lock, err := faults.Hold(w.Node.LockFile())
		Expect(err).NotTo(HaveOccurred())
		released := time.Now().Add(10 * time.Second)
		w.Endpoints(ctx, w.busy, stage.Endpoint{Of: w.Pod2, Extra: 11})
		if w.Mode == "nft" { // which knows no such lock
			w.answersFrom(w.Pod2, 11)
			Expect(time.Now()).To(BeTemporally("<", released), "it waited for a lock that is none of its own")
		}
		for time.Now().Before(released) {
			Expect(w.Agent.Healthy(ctx, "/healthz")).To(Succeed())
			Expect(w.Agent.Metrics(ctx)).NotTo(BeEmpty())
			time.Sleep(500 * time.Millisecond)
		}
		Expect(lock.Release()).To(Succeed())
		start := time.Now()
		w.answersFrom(w.Pod2, 11)
		Expect(time.Since(start)).To(BeNumerically("<", 5*time.Second))
		Expect(w.Metric(ctx, restoreFailures)).To(Equal(failed))
		lostNothing()
	})

	It("ends in time when it is told to meanwhile, and starts once the lock is free", func(ctx SpecContext) {
		lock, err := faults.Hold(w.Node.LockFile())
		Expect(err).NotTo(HaveOccurred())
		w.Endpoints(ctx, w.busy, stage.Endpoint{Of: w.RemotePod, Extra: 12})
		time.Sleep(time.Second)
		start := time.Now()
		Expect(w.Agent.Stop()).To(Succeed())
		Expect(time.Since(start)).To(BeNumerically("<", 5*time.Second))
		time.AfterFunc(3*time.Second, func() { _ = lock.Release() })
		Expect(w.Agent.Start(ctx)).To(Succeed())
		w.answersFrom(w.RemotePod, 12)
	})
}, "all")

// answersFrom expects that the busy Service is served by one address alone, before long.
func (w *world) answersFrom(pod *network.Namespace, extra int) {
	GinkgoHelper()
	for _, f := range network.Families {
		want := stage.Endpoint{Of: pod, Extra: extra}.Addr(f)
		Eventually(func() string {
			return w.Pod1.Dial(network.Probe{To: stage.VIP(w.busy, f)}).Endpoint.Addr().String()
		}).WithTimeout(stage.Soon).WithPolling(50 * time.Millisecond).Should(Equal(want.String()))
	}
}
