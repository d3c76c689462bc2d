package hostile_test

import (
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
	// pending is why the spec does not run yet in some modes, by mode: the fault of the agent.
	pending map[string]string
	// enter makes what the party has; nil for nothing.
	enter func(ctx context.Context) error
	// act is what the party does then, over and over: nil for nothing. i counts from 0.
	act func(ctx context.Context, i int) error
	// every is the time from one act to the next.
	every time.Duration
	// leave takes all away again. It runs in the goroutine of the spec.
	leave func(ctx context.Context)
	// meanwhile is what else has to hold, after the changes beside the party; nil for nothing.
	meanwhile func(ctx context.Context)
}

// parties are all of them.
func parties(env *fixture) []party {
	return slices.Concat(tenants(env), writers(env), []party{newerSet(env), fullTable(env), lockHolder(env)})
}

// spec declares the row of a party, pending where the agent has a fault.
func (p party) spec(env *fixture) {
	if len(p.modes) > 0 && !slices.Contains(p.modes, env.Mode) {
		return
	}
	row := func(ctx SpecContext) { env.endure(ctx, p) }
	if fault, is := p.pending[env.Mode]; is {
		PIt("endures "+p.what+" (pending: "+fault+")", row)
		return
	}
	It("endures "+p.what, row)
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
	attack := p.begin()
	var beside delays
	for more := changesBeside; more > 0 || p.act != nil && attack.acts.Load() < leastActs; more-- {
		if beside = append(beside, env.change(ctx)); !attack.hasEntered() {
			more++
		}
		if beside.worst() > hopeless || attack.hasEnded() {
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
	calm = append(calm, env.changes(ctx, calmChanges)...)
	AddReportEntry("measured", fmt.Sprintf("changes without: %s; beside it: %s; %d acts in %s; the agent without: %s; beside it: %s, for objects of %d bytes; %s",
		calm, beside, acts, round(took), env.calm, footprint, env.objects.Load(), during))
	health.wasFine()
	traffic.LostNothing()
	env.prompt(beside, calm, footprint.rules, during)
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
	ended   chan struct{}
	acts    atomic.Int64
	took    time.Duration
	err     error
}

func (p party) begin() *attack {
	ctx, stop := context.WithCancel(context.Background())
	a := &attack{stop: stop, entered: make(chan struct{}), ended: make(chan struct{})}
	a.working.Go(func() { a.work(ctx, p) })
	DeferCleanup(func() {
		stop()
		a.working.Wait()
	})
	return a
}

func (a *attack) work(ctx context.Context, p party) {
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
	pace := time.NewTicker(p.every)
	defer pace.Stop()
	for start := time.Now(); ctx.Err() == nil; a.took = time.Since(start) {
		i := int(a.acts.Load())
		if err := p.act(ctx, i); err != nil && ctx.Err() == nil {
			a.err = fmt.Errorf("act %d: %w", i, err)
			close(a.ended)
			return
		}
		a.acts.Add(1)
		select {
		case <-ctx.Done():
		case <-pace.C:
		}
	}
}

func (a *attack) hasEntered() bool {
	select {
	case <-a.entered:
		return true
	default:
		return false
	}
}

// hasEnded reports whether the party could not go on.
func (a *attack) hasEnded() bool {
	select {
	case <-a.ended:
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
