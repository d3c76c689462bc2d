package scale

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/test/bench/load"
	"github.com/clusterip-operator/clusterip-operator/test/bench/progress"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/seed"
)

// eventPace is how many writes a second there are of a kind of which the manager can take many.
const eventPace = 1000

// kind is something that happens in a cluster.
type kind struct {
	name string
	// share is how many of Options.Events are counted.
	share float64
	do    func(e *environment, ctx context.Context, n int) error
}

// kinds are in an order in which each leaves the world as it was, or as the next one needs it.
var kinds = []kind{
	{name: "a Service comes, with two IPAddresses", share: .5, do: (*environment).comes},
	{name: "a Service changes its labels", share: 1, do: (*environment).changes},
	{name: "a Service goes, with two IPAddresses", share: .5, do: (*environment).goes},
	{name: "a heartbeat of a node", share: 1, do: (*environment).beats},
	{name: "a namespace changes its labels", share: .5, do: (*environment).relabels},
	{name: "an EndpointSlice changes", share: 1, do: (*environment).redirects},
	{name: "a ServiceCIDR is annotated", share: .05, do: (*environment).annotates},
	{name: "a policy changes", share: .025, do: (*environment).restates},
	{name: "a ServiceCIDR comes and goes that concerns no policy", share: .0125, do: (*environment).offers},
}

// Cost is the processor time of the manager for each of N events, beyond that when nothing happens.
type Cost struct {
	N    int
	Each time.Duration
}

// measureCosts lets everything happen that may, one kind after the other.
func (e *environment) measureCosts(ctx context.Context, idle Idle) (map[string]Cost, error) {
	costs := map[string]Cost{}
	if _, err := e.waitQuiet(ctx, e.replicas[0]); err != nil {
		return costs, err
	}
	for _, k := range kinds {
		n := max(2, int(float64(e.options.Events)*k.share))
		cost, err := e.measureCost(ctx, idle, n, k)
		if err != nil {
			return costs, fmt.Errorf("measuring what it costs that %s: %w", k.name, err)
		}
		e.log.Step("%s: %s each, of %d", k.name, cost.Each, cost.N)
		costs[k.name] = cost
	}
	return costs, nil
}

func (e *environment) measureCost(ctx context.Context, idle Idle, n int, k kind) (Cost, error) {
	m, began := e.replicas[0], time.Now()
	before, err := m.CPUTime()
	if err != nil {
		return Cost{}, err
	}
	if err := k.do(e, ctx, n); err != nil {
		return Cost{}, err
	}
	after, err := e.waitQuiet(ctx, m)
	used := (after - before).Seconds() - idle.CPU*time.Since(began).Seconds()
	return Cost{N: n, Each: time.Duration(max(0, used) / float64(n) * 1e9).Round(100 * time.Nanosecond)}, err
}

func (e *environment) writeEvents(ctx context.Context, n int, object func(int) seed.Object) error {
	return e.objects.Write(ctx, 0, n, eventPace, object)
}

// comes adds Services beyond those that are there.
func (e *environment) comes(ctx context.Context, n int) error {
	from := e.level.Services
	return e.writeEvents(ctx, 3*n, func(k int) seed.Object {
		if k%3 == 2 {
			return e.world.serviceAt(from+k/3, "")
		}
		return e.world.ipAddressAt(2*(from+k/3) + k%3)
	})
}

// changes labels the Services that came.
func (e *environment) changes(ctx context.Context, n int) error {
	return e.writeEvents(ctx, n, func(i int) seed.Object {
		return e.world.serviceAt(i%e.level.Services, fmt.Sprint(time.Now().UnixNano()))
	})
}

// goes takes away what comes has added.
func (e *environment) goes(ctx context.Context, n int) error {
	from := e.level.Services
	return e.writeEvents(ctx, 3*n, func(k int) seed.Object {
		if k%3 == 0 {
			return seed.Object{Key: e.world.serviceAt(from+k/3, "").Key}
		}
		return seed.Object{Key: e.world.ipAddressAt(2*(from+k/3) + k%3 - 1).Key}
	})
}

func (e *environment) beats(ctx context.Context, n int) error {
	return e.writeEvents(ctx, n, func(i int) seed.Object { return e.world.nodeAt(i%e.options.Nodes, time.Now()) })
}

func (e *environment) relabels(ctx context.Context, n int) error {
	return e.writeEvents(ctx, n, func(i int) seed.Object {
		half := e.options.Namespaces / 2
		return e.world.namespaceAt(half+i%half, e.lastLevel().Ranges, fmt.Sprint(time.Now().UnixNano()))
	})
}

func (e *environment) redirects(ctx context.Context, n int) error {
	return e.writeEvents(ctx, n, func(i int) seed.Object { return e.world.endpointSliceAt(i%e.level.Services, time.Now()) })
}

// annotates changes ServiceCIDRs as a program does that keeps notes of its own there, and the same
// few in each level: what comes to one in a row is one look. It goes through the API server: the
// manager has written the rest.
func (e *environment) annotates(ctx context.Context, n int) error {
	_, err := load.Load{Workers: 4, Count: n}.Run(ctx, func(ctx context.Context, i int) error {
		patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"%d"}}}`, touched, time.Now().UnixNano())
		_, err := e.Client.NetworkingV1().ServiceCIDRs().Patch(ctx, rangeName(i%e.options.Levels[0].Ranges), types.MergePatchType, patch, metav1.PatchOptions{})
		return err
	})
	return err
}

// restates changes policies one by one, each after the one before has been compiled, and back.
func (e *environment) restates(ctx context.Context, n int) error {
	for i := range n {
		p, onFull := policyAt(i/2%e.level.Ranges), []v1alpha1.OnFull{v1alpha1.OnFullFallback, v1alpha1.OnFullFail}[i%2]
		patch := fmt.Appendf(nil, `{"spec":{"onFull":%q}}`, onFull)
		if err := e.client.Patch(ctx, p, client.RawPatch(types.MergePatchType, patch)); err != nil {
			return fmt.Errorf("changing policy %s: %w", p.Name, err)
		}
		if err := progress.Pause(ctx, spacing); err != nil {
			return err
		}
	}
	return nil
}

// spacing is longer than the Cache gathers changes before it compiles.
const spacing = 400 * time.Millisecond

// elsewhere is a range that neither a policy nor a supernet has.
var elsewhere = []string{"10.240.0.0/24", "fd00:ffff::/112"}

// offers creates a ServiceCIDR and takes it away again, n times.
func (e *environment) offers(ctx context.Context, n int) error {
	for range n {
		if err := e.comeAndGo(ctx, "elsewhere", elsewhere...); err != nil {
			return err
		}
	}
	return nil
}

// comeAndGo writes a ServiceCIDR, and deletes it after a moment.
func (e *environment) comeAndGo(ctx context.Context, name string, cidrs ...string) error {
	o := e.world.serviceCIDR('x', 0, name, cidrs...)
	o.Value.(client.Object).SetUID(types.UID(fmt.Sprintf("%08x-0000-4000-8000-%012x", 'x', time.Now().UnixNano()&0xffffffffffff)))
	return errors.Join(
		e.objects.Write(ctx, 0, 1, 0, func(int) seed.Object { return o }), progress.Pause(ctx, spacing),
		e.objects.Write(ctx, 0, 1, 0, func(int) seed.Object { return seed.Object{Key: o.Key} }), progress.Pause(ctx, spacing),
	)
}

// Sweep is what growing policies are looked at for.
type Sweep struct {
	// Growing is how many policies grow. Idle is how many of them were looked at after changes of a
	// range that concerns none, Looked after one in the supernet of all of them.
	Growing, Idle, Looked int
	// Took is the time from the write until all were looked at, Worked that of the looks alone, Told
	// that of a range where the next block would be: the condition of each policy is written anew.
	Took, Worked, Told time.Duration
}

// measureSweep changes a range that concerns no growing policy, and one that concerns all.
func (e *environment) measureSweep(ctx context.Context) (s Sweep, err error) {
	for i := range e.level.Ranges {
		if grows(i) {
			s.Growing++
		}
	}
	if s.Idle, err = e.idleLooks(ctx); err != nil {
		return s, err
	}
	var done looks
	if s.Took, done, err = e.sweep(ctx, s.Growing, "10.239.255.0/24"); err != nil {
		return s, err
	}
	s.Looked, s.Worked = done.looks, done.took
	s.Told, done, err = e.sweep(ctx, s.Growing, "10.224.0.0/24")
	e.log.Step("growing policies: %d; %d looks for a change that concerns none, %d for one that concerns all, within %s (work: %s); %s with %d looks if all have something else to say",
		s.Growing, s.Idle, s.Looked, s.Took, s.Worked, s.Told, done.looks)
	return s, err
}

// idleLooks returns how many policies are looked at after a change of a range that concerns none:
// the fewer of two times, for each is looked at once a minute whatever happens.
func (e *environment) idleLooks(ctx context.Context) (fewest int, err error) {
	fewest = math.MaxInt
	for range 2 {
		before, err := growth(ctx, e.replicas[0])
		if err != nil {
			return 0, err
		}
		if err := errors.Join(e.comeAndGo(ctx, "elsewhere", elsewhere...), progress.Pause(ctx, 2*spacing)); err != nil {
			return 0, err
		}
		after, err := growth(ctx, e.replicas[0])
		if err != nil {
			return 0, err
		}
		fewest = min(fewest, after.looks-before.looks)
	}
	return fewest, nil
}

// sweep writes a ServiceCIDR in the supernet of all policies, waits until each was looked at and
// written, and takes it away again. It returns the time of the looks, and what there was of them.
func (e *environment) sweep(ctx context.Context, policies int, cidr string) (took time.Duration, done looks, err error) {
	m := e.replicas[0]
	before, err := growth(ctx, m)
	if err != nil {
		return 0, done, err
	}
	began, common := time.Now(), e.world.serviceCIDR('g', 0, "in-the-supernet", cidr)
	if err := e.objects.Write(ctx, 0, 1, 0, func(int) seed.Object { return common }); err != nil {
		return 0, done, err
	}
	err = e.until(ctx, "looks at all growing policies", func(ctx context.Context) (bool, error) {
		after, err := growth(ctx, m)
		done = looks{looks: after.looks - before.looks, took: after.took - before.took}
		return done.looks >= policies && after.queued == 0, err
	})
	took = time.Since(began)
	if err := errors.Join(err, e.objects.Write(ctx, 0, 1, 0, func(int) seed.Object { return seed.Object{Key: common.Key} })); err != nil {
		return took, done, err
	}
	_, err = e.waitQuiet(ctx, m)
	return took, done, err
}

// looks are those of the controller growth until now.
type looks struct {
	looks  int
	took   time.Duration
	queued float64
}

func growth(ctx context.Context, m *framework.Manager) (looks, error) {
	f, err := m.Metrics(ctx)
	if err != nil {
		return looks{}, err
	}
	n, _ := f.Value("controller_runtime_reconcile_time_seconds_count", "controller", "growth")
	seconds, _ := f.Value("controller_runtime_reconcile_time_seconds_sum", "controller", "growth")
	return looks{int(n), time.Duration(seconds * 1e9), queued(f, "growth")}, nil
}
