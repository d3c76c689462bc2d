package soak_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/traffic"
)

// In the first sixth of the time the leader changes, twice, so that both replicas have led before
// they are watched; then nothing goes wrong for four sixths; then it changes twice again. Services
// come, change and go all the time, fifty writes a second as in a large cluster, and with them a
// ServiceCIDR and a policy now and then.
var _ = Describe("An hour of churn", Label("soak"), func() {
	const (
		writes   = 50 // of Services, in a second
		writers  = 5
		rewrites = 5 * time.Second // between two changes of policies and ranges
	)

	It("leaves memory and queues as they are, and no drift", func(ctx SpecContext) {
		e := start(ctx, 1, "")
		for range 2 {
			e.LaunchReplica(ctx, "", e.OperatorKubeconfig(e.Access))
		}
		e.WaitServing(ctx)
		e.divide(ctx)

		part, c := *duration/6, &churn{environment: e}
		life, end := context.WithTimeout(ctx, *duration)
		defer end()
		var beside sync.WaitGroup
		for i := range writers {
			beside.Go(func() { c.write(life, i, writers*time.Second/writes) })
		}
		beside.Go(func() { c.rewrite(life, rewrites) })
		g := &gauges{began: time.Now(), curves: map[string]curve{}}
		beside.Go(func() { g.watch(life, e) })

		e.changeLeaders(life, part)
		sleep(life, part*4)
		e.changeLeaders(life, part)
		beside.Wait()

		e.WaitServing(ctx)
		AddReportEntry("churn", c.String()+"\n"+g.String())
		Expect(float64(c.done())).To(BeNumerically(">", duration.Seconds()*writes/4), "there was hardly any traffic: %s", c)
		Expect(c.failures()).To(BeEmpty())
		Expect(g.unsteady(part, part*5)).To(BeEmpty(), "%s", g)
		Eventually(e.Breaches).WithArguments(ctx).WithTimeout(settling).WithPolling(time.Second).Should(BeEmpty())
		e.ExpectNothingLeaked(ctx)
		Eventually(func() framework.PluginResult { // the last ServiceCIDR has ten seconds to go
			return suite.Must(e.RunPlugin(ctx, framework.PluginOptions{Args: []string{"check"}}))
		}).WithPolling(time.Second).Should(HaveField("ExitCode", 0))
	})
})

// changeLeaders has the leader stop and start again, twice, within a time.
func (e *environment) changeLeaders(ctx context.Context, within time.Duration) {
	GinkgoHelper()
	end := time.Now().Add(within)
	for range 2 {
		sleep(ctx, within/4)
		leader, _ := e.Leader(ctx)
		Expect(leader.Stop()).To(Succeed())
		Expect(leader.Start(ctx)).To(Succeed())
	}
	sleep(ctx, time.Until(end))
}

// churn has Services come, change and go, each of its writers its own.
type churn struct {
	*environment
	creations, changes, deletions, others traffic.Tally
}

// write writes a Service every so often: of 30 that are there one is changed, or goes.
func (c *churn) write(ctx context.Context, id int, each time.Duration) {
	defer GinkgoRecover()
	const most = 30
	var own []types.NamespacedName
	rng := random(id)
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		ctx = context.WithoutCancel(ctx) // a write whose effect is unknown would look like drift
		begin := time.Now()
		switch i := rng.IntN(most); {
		case i >= len(own):
			service := framework.NewService([]string{tenant, stranger}[rng.IntN(2)], fmt.Sprintf("churn-%d-%d", id, begin.UnixNano()))
			if rng.IntN(2) == 0 {
				framework.RequireDualStack()(service)
			}
			_, err := c.Client().CoreV1().Services(service.Namespace).Create(ctx, service, metav1.CreateOptions{})
			c.creations.Add(time.Since(begin), err)
			own = append(own, types.NamespacedName{Namespace: service.Namespace, Name: service.Name})
		case rng.IntN(2) == 0:
			patch := fmt.Appendf(nil, `{"metadata":{"labels":{"changed":"%d"}}}`, begin.UnixNano())
			_, err := c.Client().CoreV1().Services(own[i].Namespace).Patch(ctx, own[i].Name, types.MergePatchType, patch, metav1.PatchOptions{})
			c.changes.Add(time.Since(begin), err)
		default:
			err := c.Client().CoreV1().Services(own[i].Namespace).Delete(ctx, own[i].Name, metav1.DeleteOptions{})
			c.deletions.Add(time.Since(begin), err)
			own = slices.Delete(own, i, i+1)
		}
	}, each)
}

// rewrite has a ServiceCIDR come and go, and changes a policy, every so often.
func (c *churn) rewrite(ctx context.Context, each time.Duration) {
	defer GinkgoRecover()
	ranges := c.Client().NetworkingV1().ServiceCIDRs()
	n := 0
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		ctx = context.WithoutCancel(ctx)
		n++
		begin := time.Now()
		c.others.Add(time.Since(begin), c.TryPolicyChange(ctx, "open", fmt.Sprintf("{coolDown: %ds}", 5+n%3)))
		name := fmt.Sprintf("churn-%d", n)
		at := 1 + n%255 // of fd00:10:99:0:: the canonical form has no zero
		_, err := ranges.Create(ctx, framework.NewServiceCIDR(name, fmt.Sprintf("10.99.%d.0/24", at), fmt.Sprintf("fd00:10:99:%x::/120", at)), metav1.CreateOptions{})
		c.others.Add(time.Since(begin), err)
		if err == nil {
			c.others.Add(time.Since(begin), ranges.Delete(ctx, name, metav1.DeleteOptions{}))
		}
	}, each)
}

func (c *churn) tallies() map[string]*traffic.Tally {
	return map[string]*traffic.Tally{"creations": &c.creations, "changes": &c.changes, "deletions": &c.deletions, "policies and ranges": &c.others}
}

// done is how many writes of Services succeeded.
func (c *churn) done() int {
	return c.creations.Count(traffic.Created) + c.changes.Count(traffic.Created) + c.deletions.Count(traffic.Created)
}

// failures are those of all writes. While no replica leads, two may draw the same address: one of
// the two creations is refused then.
func (c *churn) failures() (all []string) {
	for name, t := range c.tallies() {
		for outcome, n := range t.Failures() {
			if outcome != traffic.Collided {
				all = append(all, fmt.Sprintf("%s: %d %s", name, n, outcome))
			}
		}
	}
	return all
}

// String is for the report.
func (c *churn) String() string {
	var lines []string
	for name, t := range c.tallies() {
		lines = append(lines, name+": "+t.String())
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// gauges are what is watched of the replicas: memory in MiB, and the length of each queue.
type gauges struct {
	began  time.Time
	curves map[string]curve
}

// watch reads until ctx ends, some 200 times.
func (g *gauges) watch(ctx context.Context, e *environment) {
	defer GinkgoRecover()
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		for i, replica := range e.Replicas() {
			at, name := time.Since(g.began), fmt.Sprint("replica ", i)
			figures, err := replica.Metrics(ctx)
			bytes, unread := replica.RSS()
			if err != nil || unread != nil {
				continue // it stops or starts
			}
			g.note(at, name+", resident MiB", float64(bytes)/(1<<20))
			for _, queue := range queues {
				depth, _ := figures.Value("workqueue_depth", "name", queue)
				g.note(at, name+", queue "+queue, depth)
			}
		}
	}, *duration/200)
}

// queues are those of the controllers that Services, ranges and policies wake.
var queues = []string{"ipaddress", "service", "servicecidr", "policystatus", "reservation", "additional", "enforcement", "growth"}

func (g *gauges) note(at time.Duration, of string, value float64) {
	g.curves[of] = append(g.curves[of], reading{at, value})
}

// unsteady says what rose from a time to another one.
func (g *gauges) unsteady(from, to time.Duration) (all []string) {
	for _, name := range slices.Sorted(maps.Keys(g.curves)) {
		share, least := .05, 2.0 // MiB
		if strings.Contains(name, "queue") {
			share, least = 1, 20 // keys
		}
		if why := g.curves[name].between(from, to).unsteady(share, least); why != "" {
			all = append(all, name+": "+why)
		}
	}
	return all
}

// String is for the report.
func (g *gauges) String() string {
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(g.curves)) {
		c := g.curves[name].between(*duration/6, *duration*5/6)
		if len(c) > 0 {
			lines = append(lines, fmt.Sprintf("%s: median %.1f, from %.1f to %.1f, rises by %.2f", name, c.median(), slices.Min(c.values()), slices.Max(c.values()), c.rise()))
		}
	}
	return strings.Join(lines, "\n")
}
