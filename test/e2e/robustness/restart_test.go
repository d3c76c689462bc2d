package robustness_test

import (
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/test/e2e/internal/environment"
	"github.com/clusterip-operator/clusterip-operator/test/framework/network"
)

// slowly is when the agent finds what only a full comparison shows. It makes one each half minute,
// but spends at most a three-hundredth of the time on it.
const slowly = 3 * time.Minute

// gone expects that a deleted Service is not served. No other Service has its addresses.
func (env *fixture) gone(addresses ...string) {
	GinkgoHelper()
	for _, address := range addresses {
		environment.Ends(env.Pod1, port80(address), network.Dropped)
	}
}

var _ = everywhere("An agent that ends and starts", func(env *fixture) {
	It("loses nothing, and writes the same rules again", func(ctx SpecContext) {
		traffic := env.Traffic(env.busy, env.calls)
		before := env.stableRules(ctx)
		for range 2 {
			Expect(env.Agent.Stop()).To(Succeed()) // in time: a bound of five seconds was short for the race detector on a busy machine
			Expect(env.Agent.ExitCode()).To(BeZero())
			Expect(before.Diff(env.Ours(ctx))).To(BeEmpty(), "the rules stay")
			time.Sleep(200 * time.Millisecond)
			Expect(env.Agent.Start(ctx)).To(Succeed())
			Expect(before.Diff(env.Ours(ctx))).To(BeEmpty())
		}
		traffic.LostNothing()
	})

	It("knows at once what happened while it was away", func(ctx SpecContext) {
		traffic := env.Traffic(env.busy, env.calls)
		leaves := env.Serve(ctx, "leaves", env.Servers())
		env.Served(leaves)
		Expect(env.Agent.Kill()).To(Succeed())
		env.Delete(ctx, leaves.Name)
		comes := env.Serve(ctx, "comes", env.Servers())
		defer env.Delete(ctx, comes.Name)
		env.move(ctx, env.Pod2, 3)
		Expect(env.Agent.Start(ctx)).To(Succeed())
		for _, f := range network.Families {
			Expect(env.Pod1.Dial(network.Probe{To: environment.VIP(comes, f)})).To(environment.End(network.Connected))
			Expect(env.Pod1.Dial(network.Probe{To: environment.VIP(env.busy, f)}).Endpoint.Addr()).To(Equal(env.Pod2.Extra(f, 3)))
		}
		env.gone(leaves.Spec.ClusterIPs...)
		traffic.LostNothing()
	})

})

var _ = both("An agent that ends while it writes", func(env *fixture) {
	// The programs are held before their work, and let go when the agent is dead: no signal ends them.
	It("loses nothing when it is killed in the middle of a sync, again and again", func(ctx SpecContext) {
		traffic := env.Traffic(env.busy, env.calls)
		before := env.stableRules(ctx)
		for i := range 3 {
			started := env.programs.Started()
			Expect(env.programs.Close()).To(Succeed())
			passing := env.Serve(ctx, fmt.Sprintf("passing-%d", i), env.Servers())
			Eventually(env.programs.Started).WithTimeout(environment.Soon).Should(BeNumerically(">", started))
			Expect(env.Pod1.Dial(network.Probe{To: environment.VIP(passing, model.IPv4), Timeout: network.DropTimeout})).NotTo(environment.End(network.Connected))
			Expect(env.Agent.Kill()).To(Succeed())
			if i%2 == 0 {
				env.Delete(ctx, passing.Name)
			}
			Expect(env.programs.Open()).To(Succeed())
			Expect(env.Agent.Start(ctx)).To(Succeed())
			if i%2 == 0 {
				env.gone(passing.Spec.ClusterIPs...)
				continue
			}
			env.Served(passing)
			env.Delete(ctx, passing.Name)
		}
		Eventually(func() string { return before.Diff(env.Ours(ctx)) }).WithTimeout(environment.Soon).Should(BeEmpty())
		traffic.LostNothing()
	})

	// Say a program of a dead agent waits for the lock, and writes what was right then, when another
	// agent has written what is right now.
	DescribeTable("corrects what a program of its predecessor writes late", func(ctx SpecContext, stale int, within time.Duration) {
		Expect(env.programs.Hold(2)).To(Succeed())
		env.Endpoints(ctx, env.busy, []environment.Endpoint{{Of: env.RemotePod, Extra: 7}, {Of: env.RemotePod, Extra: 8}}[:stale]...)
		Eventually(env.programs.Held).WithTimeout(environment.Soon).Should(BeNumerically(">", 0))
		Expect(env.Agent.Kill()).To(Succeed())
		Expect(env.programs.HoldNoMore()).To(Succeed())
		env.move(ctx, env.Pod2, 7)
		Expect(env.Agent.Start(ctx)).To(Succeed())
		before := env.stableRules(ctx)
		held := env.programs.Held()
		Expect(env.programs.Release()).To(Succeed())
		Eventually(env.programs.Late).WithTimeout(environment.Soon).Should(BeNumerically(">=", held))
		start := time.Now()
		Eventually(func() string { return before.Diff(env.Ours(ctx)) }).WithTimeout(within).Should(BeEmpty())
		AddReportEntry("corrected after", time.Since(start), ReportEntryVisibilityFailureOrVerbose)
		env.answersFrom(env.Pod2, 7)
	},
		Entry("of another size", 2, environment.Soon),
		// In the legacy variant only the slow comparison sees this.
		Entry("of the same size", Label("soak"), 1, slowly),
	)
})

var _ = every("An agent whose API server goes away", func(env *fixture) {
	It("loses nothing and sees what comes afterwards", Label("long"), func(ctx SpecContext) {
		traffic := env.Traffic(env.busy, env.calls)
		before := env.stableRules(ctx)
		Expect(env.Cluster.API.Kill()).To(Succeed()) // a graceful end would wait a minute for its watchers
		Consistently(func() string { return before.Diff(env.Ours(ctx)) }).WithTimeout(2 * time.Second).Should(BeEmpty())
		Expect(env.Agent.Healthy(ctx, "/healthz")).To(Succeed())
		Expect(env.Cluster.API.Start(ctx)).To(Succeed())
		later := env.Serve(ctx, "later", env.Servers())
		env.Served(later)
		env.Delete(ctx, later.Name)
		env.gone(later.Spec.ClusterIPs...)
		traffic.LostNothing()
	})
}, "all")
