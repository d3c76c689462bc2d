package robustness_test

import (
	"context"
	"net/netip"
	"os"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"golang.org/x/sys/unix"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/test/e2e/internal/environment"
	"github.com/clusterip-operator/clusterip-operator/test/framework/network"
)

const restoreFailures = "sync_proxy_rules_iptables_restore_failures_total"

var _ = both("An agent whose iptables fails", func(env *fixture) {
	DescribeTable("loses neither a change nor a connection", func(ctx SpecContext, order func(int) error) {
		traffic := env.Traffic(env.busy, env.calls)
		Expect(order(4)).To(Succeed())
		service := env.Serve(ctx, "in-trouble", env.Servers())
		env.move(ctx, env.Pod2, 9)
		env.Served(service)
		env.answersFrom(env.Pod2, 9)
		// When all is written and the agent sees that, there is no reason to run a program once
		// more.
		Eventually(env.programs.Left).WithTimeout(environment.Soon).Should(BeNumerically("<=", 2))
		Expect(env.programs.NoMore()).To(Succeed())
		env.Delete(ctx, service.Name)
		traffic.LostNothing()
	},
		Entry("when it refuses", func(n int) error { return env.programs.Refuse(n) }),
		Entry("when it works and says that it failed", func(n int) error { return env.programs.Forget(n) }),
	)

	It("goes on with one family while the program of the other does not end", func(ctx SpecContext) {
		Expect(env.programs.Hold(1)).To(Succeed())
		env.move(ctx, env.Pod2, 16)
		Eventually(env.programs.Held).WithTimeout(environment.Soon).Should(Equal(1))
		for _, extra := range []int{16, 17, 18} {
			env.move(ctx, env.Pod2, extra)
			start := time.Now()
			Eventually(func() (answering []netip.Addr) {
				for _, f := range network.Families {
					answering = append(answering, env.Pod1.Dial(network.Probe{To: environment.VIP(env.busy, f)}).Endpoint.Addr())
				}
				return answering
			}).WithTimeout(environment.Soon).Should(ContainElement(BeElementOf(env.Pod2.Extra(model.IPv4, extra), env.Pod2.Extra(model.IPv6, extra))))
			// With iptables-nft the first write waits for the other before it goes on without.
			AddReportEntry("one family went on after", time.Since(start), ReportEntryVisibilityFailureOrVerbose)
		}
		Expect(env.programs.Held()).To(Equal(1))
		Expect(env.programs.Release()).To(Succeed())
		env.answersFrom(env.Pod2, 18)
	})
})

var _ = both("An agent whose kernel refuses the rules of one Service", func(env *fixture) {
	It("serves everybody else, says what it does without, and serves that one when the kernel takes its rules", func(ctx SpecContext) {
		service := env.Serve(ctx, "refused", env.Servers())
		env.Served(service)
		v4, v6 := environment.VIP(service, model.IPv4), environment.VIP(service, model.IPv6)
		degraded := func(ctx context.Context) float64 { return env.Metric(ctx, "degraded_service_ports") }
		Expect(degraded(ctx)).To(BeZero())
		traffic := env.Traffic(env.busy, env.calls)
		Expect(env.programs.Taboo("-d " + v4.Addr().String() + "/32 ")).To(Succeed())
		DeferCleanup(func() error { return env.programs.Taboo("") })
		env.Endpoints(ctx, service, environment.Endpoint{Of: env.Pod2, Extra: 14})
		env.move(ctx, env.Pod2, 13)
		env.answersFrom(env.Pod2, 13)
		env.Served(env.Serve(ctx, "beside-it", env.Servers()))
		environment.Ends(env.Pod1, v4, network.Refused)
		environment.Answers(env.Pod1, v6, environment.Endpoint{Of: env.Pod2, Extra: 14})
		Eventually(degraded).WithContext(ctx).WithTimeout(environment.Soon).Should(BeEquivalentTo(1))

		Expect(env.programs.Taboo("")).To(Succeed())
		env.Endpoints(ctx, service, environment.Endpoint{Of: env.Pod2, Extra: 15})
		environment.Answers(env.Pod1, v4, environment.Endpoint{Of: env.Pod2, Extra: 15})
		Eventually(degraded).WithContext(ctx).WithTimeout(environment.Soon).Should(BeZero())
		env.Delete(ctx, "beside-it")
		env.Delete(ctx, service.Name)
		traffic.LostNothing()
	})
}, "all")

var _ = both("An agent beside another process that holds the xtables lock for ten seconds", func(env *fixture) {
	It("waits where it must, neither fails nor hangs, and catches up", func(ctx SpecContext) {
		traffic := env.Traffic(env.busy, env.calls)
		failed := env.Metric(ctx, restoreFailures)
		release := env.holdLock()
		released := time.Now().Add(10 * time.Second)
		env.move(ctx, env.Pod2, 11)
		if env.Mode == "nft" { // which knows no such lock
			env.answersFrom(env.Pod2, 11)
			Expect(time.Now()).To(BeTemporally("<", released), "it waited for a lock that is none of its own")
		}
		for time.Now().Before(released) {
			Expect(env.Agent.Healthy(ctx, "/healthz")).To(Succeed())
			Expect(env.Agent.Metrics(ctx)).NotTo(BeEmpty())
			time.Sleep(500 * time.Millisecond)
		}
		release()
		env.answersFrom(env.Pod2, 11)
		Expect(env.Metric(ctx, restoreFailures)).To(Equal(failed))
		traffic.LostNothing()
	})

	It("ends in time on a signal meanwhile, and starts once the lock is free", func(ctx SpecContext) {
		release := env.holdLock()
		env.move(ctx, env.RemotePod, 12)
		time.Sleep(time.Second)
		Expect(env.Agent.Stop()).To(Succeed())
		time.AfterFunc(3*time.Second, release)
		Expect(env.Agent.Start(ctx)).To(Succeed())
		env.answersFrom(env.RemotePod, 12)
	})
}, "all")

// holdLock takes the xtables lock as iptables-legacy does, and returns how to give it back.
func (env *fixture) holdLock() (release func()) {
	GinkgoHelper()
	file, err := os.OpenFile(env.Node.LockFile(), os.O_CREATE|os.O_RDWR, 0o600)
	Expect(err).NotTo(HaveOccurred())
	Expect(unix.Flock(int(file.Fd()), unix.LOCK_EX)).To(Succeed())
	return func() { _ = file.Close() }
}
