//go:build linux

package robustness_test

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/clusterip-operator/clusterip-operator/test/e2e/internal/environment"
	"github.com/clusterip-operator/clusterip-operator/test/e2e/internal/faults"
	"github.com/clusterip-operator/clusterip-operator/test/framework/network"
)

const restoreFailures = "sync_proxy_rules_iptables_restore_failures_total"

var _ = both("An agent whose iptables fails", func(env *fixture) {
	failures := func(ctx context.Context) float64 { return env.Metric(ctx, restoreFailures) }

	DescribeTable("loses neither a change nor a connection", func(ctx SpecContext, order func(int) error) {
		lostNothing := env.traffic(ctx)
		before := failures(ctx)
		Expect(order(4)).To(Succeed())
		service := env.Serve(ctx, "in-trouble", env.servers())
		env.Endpoints(ctx, env.busy, environment.Endpoint{Of: env.Pod2, Extra: 9})
		env.Served(service)
		env.answersFrom(env.Pod2, 9)
		// When all is written and the agent sees that, there is no reason to run a program once more. The rules are in force before the
		// program that wrote them says that it failed.
		Eventually(env.programs.Left).WithTimeout(environment.Soon).Should(BeNumerically("<=", 2))
		Eventually(func() float64 { return failures(ctx) }).WithTimeout(environment.Soon).Should(BeNumerically(">=", before+2))
		Expect(env.programs.NoMore()).To(Succeed())
		env.Delete(ctx, service.Name)
		lostNothing()
	},
		Entry("when it refuses", func(n int) error { return env.programs.Refuse(n) }),
		Entry("when it works and says that it failed", func(n int) error { return env.programs.Forget(n) }),
	)
})

var _ = both("An agent beside another process that holds the xtables lock for ten seconds", func(env *fixture) {
	It("waits where it must, neither fails nor hangs, and catches up", func(ctx SpecContext) {
		lostNothing := env.traffic(ctx)
		failed := env.Metric(ctx, restoreFailures)
		lock, err := faults.Hold(env.Node.LockFile())
		Expect(err).NotTo(HaveOccurred())
		released := time.Now().Add(10 * time.Second)
		env.Endpoints(ctx, env.busy, environment.Endpoint{Of: env.Pod2, Extra: 11})
		if env.Mode == "nft" { // which knows no such lock
			env.answersFrom(env.Pod2, 11)
			Expect(time.Now()).To(BeTemporally("<", released), "it waited for a lock that is none of its own")
		}
		for time.Now().Before(released) {
			Expect(env.Agent.Healthy(ctx, "/healthz")).To(Succeed())
			Expect(env.Agent.Metrics(ctx)).NotTo(BeEmpty())
			time.Sleep(500 * time.Millisecond)
		}
		Expect(lock.Release()).To(Succeed())
		start := time.Now()
		env.answersFrom(env.Pod2, 11)
		Expect(time.Since(start)).To(BeNumerically("<", 5*time.Second))
		Expect(env.Metric(ctx, restoreFailures)).To(Equal(failed))
		lostNothing()
	})

	It("ends in time on a signal meanwhile, and starts once the lock is free", func(ctx SpecContext) {
		lock, err := faults.Hold(env.Node.LockFile())
		Expect(err).NotTo(HaveOccurred())
		env.Endpoints(ctx, env.busy, environment.Endpoint{Of: env.RemotePod, Extra: 12})
		time.Sleep(time.Second)
		start := time.Now()
		Expect(env.Agent.Stop()).To(Succeed())
		Expect(time.Since(start)).To(BeNumerically("<", 5*time.Second))
		time.AfterFunc(3*time.Second, func() { _ = lock.Release() })
		Expect(env.Agent.Start(ctx)).To(Succeed())
		env.answersFrom(env.RemotePod, 12)
	})
}, "all")

// answersFrom expects that the busy Service is served by one address alone, before long.
func (env *fixture) answersFrom(pod *network.Namespace, extra int) {
	GinkgoHelper()
	for _, f := range network.Families {
		want := environment.Endpoint{Of: pod, Extra: extra}.Addr(f)
		Eventually(func() string {
			return env.Pod1.Dial(network.Probe{To: environment.VIP(env.busy, f)}).Endpoint.Addr().String()
		}).WithTimeout(environment.Soon).WithPolling(50 * time.Millisecond).Should(Equal(want.String()))
	}
}
