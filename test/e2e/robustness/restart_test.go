//go:build linux

package robustness_test

import (
	"context"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/clusterip-operator/clusterip-operator/test/e2e/internal/stage"
	"github.com/clusterip-operator/clusterip-operator/test/framework/network"
)

// traffic starts all kinds of it, to both Services.
func (w *world) traffic(ctx context.Context) (lostNothing func()) {
	GinkgoHelper()
	one, other := w.Traffic(ctx, w.busy), w.Traffic(ctx, w.calls)
	return func() {
		GinkgoHelper()
		one.LostNothing()
		other.LostNothing()
	}
}

// gone expects that a Service which was deleted is not served any more. Nobody else has its addresses.
func (w *world) gone(addresses ...string) {
	GinkgoHelper()
	for _, address := range addresses {
		stage.Ends(w.Pod1, port80(address), network.Dropped)
	}
}

var _ = both("An agent that ends and starts", func(the func() *world) {
	var w *world
	BeforeEach(func(ctx SpecContext) {
		w = the()
		w.reset(ctx)
	})

	It("loses nothing, and writes the same rules again", func(ctx SpecContext) {
		lostNothing := w.traffic(ctx)
		before := w.settled(ctx)
		for range 2 {
			start := time.Now()
			Expect(w.Agent.Stop()).To(Succeed())
			Expect(time.Since(start)).To(BeNumerically("<", 5*time.Second))
			Expect(w.Agent.ExitCode()).To(BeZero())
			Expect(before.Diff(w.ours(ctx))).To(BeEmpty(), "the rules stay")
			time.Sleep(200 * time.Millisecond)
			Expect(w.Agent.Start(ctx)).To(Succeed())
			Expect(before.Diff(w.ours(ctx))).To(BeEmpty())
		}
		lostNothing()
	})

	It("knows at once what happened while it was away", func(ctx SpecContext) {
		lostNothing := w.traffic(ctx)
		leaves := w.Serve(ctx, "leaves", w.servers())
		w.Served(leaves)
		Expect(w.Agent.Kill()).To(Succeed())
		w.Delete(ctx, leaves.Name)
		comes := w.Serve(ctx, "comes", w.servers())
		defer w.Delete(ctx, comes.Name)
		w.Endpoints(ctx, w.busy, stage.Endpoint{Of: w.Pod2, Extra: 3})
		Expect(w.Agent.Start(ctx)).To(Succeed())
		for _, f := range network.Families {
			Expect(w.Pod1.Dial(network.Probe{To: stage.VIP(comes, f)})).To(stage.End(network.Connected))
			Expect(w.Pod1.Dial(network.Probe{To: stage.VIP(w.busy, f)}).Endpoint.Addr()).To(Equal(w.Pod2.Extra(f, 3)))
		}
		w.gone(leaves.Spec.ClusterIPs...)
		lostNothing()
	})

	// The programs are held back before they do their work, and let go when the agent is dead: at times nobody tells them to stop.
	It("loses nothing when it is killed in the middle of a sync, again and again", func(ctx SpecContext) {
		lostNothing := w.traffic(ctx)
		before := w.settled(ctx)
		for i := range 3 {
			started := w.programs.Started()
			Expect(w.programs.Close()).To(Succeed())
			passing := w.Serve(ctx, fmt.Sprintf("passing-%d", i), w.servers())
			Eventually(w.programs.Started).WithTimeout(stage.Soon).Should(BeNumerically(">", started))
			Expect(w.Agent.Kill()).To(Succeed())
			if i%2 == 0 {
				w.Delete(ctx, passing.Name)
			}
			Expect(w.programs.Open()).To(Succeed())
			Expect(w.Agent.Start(ctx)).To(Succeed())
			if i%2 == 0 {
				w.gone(passing.Spec.ClusterIPs...)
				continue
			}
			w.Served(passing)
			w.Delete(ctx, passing.Name)
		}
		Eventually(func() string { return before.Diff(w.ours(ctx)) }).WithTimeout(stage.Soon).Should(BeEmpty())
		lostNothing()
	})

	It("loses nothing when it is killed at any moment while much changes", Label("soak"), func(ctx SpecContext) {
		lostNothing := w.traffic(ctx)
		before := w.settled(ctx)
		for i := range 6 {
			w.Serve(ctx, fmt.Sprintf("brief-%d", i), w.servers()[:i%4])
			w.Endpoints(ctx, w.busy, w.servers()[i%3])
			time.Sleep(time.Duration(i) * 60 * time.Millisecond)
			Expect(w.Agent.Kill()).To(Succeed())
			if i > 0 {
				w.Delete(ctx, fmt.Sprintf("brief-%d", i-1))
			}
			Expect(w.Agent.Start(ctx)).To(Succeed())
		}
		w.Delete(ctx, "brief-5")
		w.reset(ctx)
		Eventually(func() string { return before.Diff(w.ours(ctx)) }).WithTimeout(stage.Soon).Should(BeEmpty())
		lostNothing()
	})

	// A program that was started by an agent now dead waits for the lock, say, and writes what was right then, when another agent
	// has written what is right now.
	DescribeTable("corrects what a program of its predecessor writes late", func(ctx SpecContext, stale int, within time.Duration) {
		Expect(w.programs.Hold(2)).To(Succeed())
		w.Endpoints(ctx, w.busy, []stage.Endpoint{{Of: w.RemotePod, Extra: 7}, {Of: w.RemotePod, Extra: 8}}[:stale]...)
		Eventually(w.programs.Held).WithTimeout(stage.Soon).Should(BeNumerically(">", 0))
		Expect(w.Agent.Kill()).To(Succeed())
		Expect(w.programs.HoldNoMore()).To(Succeed())
		w.Endpoints(ctx, w.busy, stage.Endpoint{Of: w.Pod2, Extra: 7})
		Expect(w.Agent.Start(ctx)).To(Succeed())
		before := w.settled(ctx)
		Expect(w.programs.Release()).To(Succeed())
		time.Sleep(time.Second)
		Eventually(func() string { return before.Diff(w.ours(ctx)) }).WithTimeout(within).Should(BeEmpty())
		w.answersFrom(w.Pod2, 7)
	},
		Entry("of another size", 2, stage.Repair),
		// In the legacy variant only the slow comparison sees this.
		Entry("of the same size", Label("soak"), 1, slowly),
	)

	It("is told to end while a program of its own hangs, and does", func(ctx SpecContext) {
		started := w.programs.Started()
		Expect(w.programs.Close()).To(Succeed())
		w.Endpoints(ctx, w.busy, w.servers()[0])
		Eventually(w.programs.Started).WithTimeout(stage.Soon).Should(BeNumerically(">", started))
		start := time.Now()
		Expect(w.Agent.Stop()).To(Succeed())
		Expect(time.Since(start)).To(BeNumerically("<", 5*time.Second))
		Expect(w.programs.Open()).To(Succeed())
		Expect(w.Agent.Start(ctx)).To(Succeed())
	})
})

var _ = both("An agent whose API server goes away", func(the func() *world) {
	var w *world
	BeforeEach(func(ctx SpecContext) {
		w = the()
		w.reset(ctx)
	})

	It("loses nothing and sees what comes afterwards", func(ctx SpecContext) {
		lostNothing := w.traffic(ctx)
		before := w.settled(ctx)
		Expect(w.Cluster.API.Kill()).To(Succeed()) // told to end it would wait for its watchers, for a minute
		Consistently(func() string { return before.Diff(w.ours(ctx)) }).WithTimeout(2 * time.Second).Should(BeEmpty())
		Expect(w.Agent.Healthy(ctx, "/healthz")).To(Succeed())
		Expect(w.Cluster.API.Start(ctx)).To(Succeed())
		later := w.Serve(ctx, "later", w.servers())
		w.Served(later)
		w.Delete(ctx, later.Name)
		w.gone(later.Spec.ClusterIPs...)
		lostNothing()
	})
}, "all")
