package hostile_test

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/clusterip-operator/clusterip-operator/test/e2e/internal/environment"
	"github.com/clusterip-operator/clusterip-operator/test/framework/network"
)

// party is a row of the table. Its functions run in a goroutine of their own, beside the changes
// that are measured, and return what they could not do.
type party struct {
	// what it is, after "endures".
	what string
	// modes in which there is such a party; empty for all.
	modes []string
	// enter makes what the party has; nil for nothing.
	enter func(ctx context.Context) error
	// act is what the party does then, over and over: nil for nothing. i counts from 0.
	act func(ctx context.Context, i int) error
	// every is the time from one act to the next, on a machine that has nothing else to do. Where
	// the agent is slower for the tests of other packages, so is the party: an agent that gets a
	// fifth of a processor would be busy with a tenant's acts all the time.
	every time.Duration
	// least is how often it has to act; 0 for leastActs.
	least int64
	// enough reports whether what is the matter with the party has happened by now; nil for yes.
	enough func(ctx context.Context) bool
	// leave takes all away again. It runs in the goroutine of the spec.
	leave func(ctx context.Context)
	// meanwhile is what else has to hold, after the changes beside the party; nil for nothing.
	meanwhile func(ctx context.Context)
}

// parties are all of them.
func parties(env *fixture) []party {
	return slices.Concat(tenants(env), writers(env), []party{newerSet(env), fullTable(env), lockHolder(env)})
}

// spec declares the row of a party.
func (p party) spec(env *fixture) {
	if len(p.modes) > 0 && !slices.Contains(p.modes, env.Mode) {
		return
	}
	It("endures "+p.what, func(ctx SpecContext) { env.endure(ctx, p) })
}

// Changes that are measured: before and after the party, and at least so many beside it once it has
// entered, and until it has acted so often.
const calmChanges, changesBeside, leastActs = 8, 16, 8

// hopeless is what no change may take: more of them need not be waited for.
const hopeless = 15 * time.Second

// endure lets a party in while there is traffic, and expects what the comment of the package says.
func (env *fixture) endure(ctx context.Context, p party) {
	GinkgoHelper()
	health := env.watchHealth()
	traffic := env.traffic()
	calm := env.changes(ctx, calmChanges)
	env.objects.Store(0)
	turns := env.turns()
	attack := p.begin(func() float64 { return env.turns().since(turns).slowness() })
	var entering, beside delays // changes that may fall together with the first of the party, and the rest
	for len(beside) < changesBeside || p.act != nil && attack.acts.Load() < cmp.Or(p.least, leastActs) || p.enough != nil && !p.enough(ctx) {
		entered, took := over(attack.entered), env.change(ctx)
		if entered {
			beside = append(beside, took)
		} else {
			entering = append(entering, took)
		}
		if took > hopeless || over(attack.ended) {
			break
		}
	}
	during, footprint := env.turns().since(turns), env.footprint(ctx)
	if p.meanwhile != nil {
		p.meanwhile(ctx)
	}
	acts, took, err := attack.end()
	Expect(err).NotTo(HaveOccurred(), "what the party does")
	if p.leave != nil {
		p.leave(ctx)
	}
	env.change(ctx)
	if after := env.changes(ctx, calmChanges); after.median() < calm.median() {
		calm = after // what the party left may still be taken away
	}
	AddReportEntry("measured", ReportEntryVisibilityAlways, fmt.Sprintf("changes without: %s; while it enters: %s; beside it: %s; %d acts in %s; the agent without: %s; beside it: %s, for objects of %d bytes; %s",
		calm, entering, beside, acts, round(took), env.calm, footprint, env.objects.Load(), during))
	health.wasFine()
	traffic.LostNothing()
	env.prompt(entering, beside, calm, footprint.rules, during)
	env.affordable(footprint)
}

// traffic goes to both well-behaved Services. That of the moving one is of new connections alone.
func (env *fixture) traffic() *environment.Traffic {
	GinkgoHelper()
	traffic := env.Traffic(env.steady)
	for _, f := range network.Families {
		traffic.Connect(env.Pod1, environment.VIP(env.moving, f))
	}
	return traffic
}

// attack is a party at work.
type attack struct {
	stop    context.CancelFunc
	working sync.WaitGroup
	entered chan struct{}
	ended   chan struct{} // the party could not go on
	acts    atomic.Int64
	took    time.Duration
	err     error
}

func (p party) begin(slowness func() float64) *attack {
	ctx, stop := context.WithCancel(context.Background())
	a := &attack{stop: stop, entered: make(chan struct{}), ended: make(chan struct{})}
	a.working.Go(func() {
		defer GinkgoRecover() // slowness expects that the agent runs
		a.work(ctx, p, slowness)
	})
	DeferCleanup(func() {
		stop()
		a.working.Wait()
	})
	return a
}

func (a *attack) work(ctx context.Context, p party, slowness func() float64) {
	if p.enter != nil {
		a.err = p.enter(ctx)
	}
	close(a.entered)
	if a.err != nil {
		close(a.ended)
	}
	if p.act == nil || a.err != nil {
		return
	}
	for start := time.Now(); ctx.Err() == nil; a.took = time.Since(start) {
		next := time.After(time.Duration(float64(p.every) * min(slowness(), 10)))
		i := int(a.acts.Load())
		if err := p.act(ctx, i); err != nil && ctx.Err() == nil {
			a.err = fmt.Errorf("act %d: %w", i, err)
			close(a.ended)
			return
		}
		a.acts.Add(1)
		select {
		case <-ctx.Done():
		case <-next:
		}
	}
}

// over reports whether a channel is closed.
func over(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// end returns how often it acted and for how long.
func (a *attack) end() (acts int64, took time.Duration, err error) {
	a.stop()
	a.working.Wait()
	return a.acts.Load(), a.took, a.err
}
