package steering

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/test/bench/cluster"
	"github.com/clusterip-operator/clusterip-operator/test/bench/load"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/seed"
)

const (
	// narrow is the name of the range that is at 99 %, and of its policy.
	narrow, narrowRange = "narrow", "10.65.0.0/20"
	// left of its 4,094 addresses are free. Copies fill the rest of its dynamic band. Services that
	// choose their addresses fill the static band, over which tools scatter no copies.
	left          = 40
	narrowDynamic = 4094 - 256
)

// Replicated is what was measured with some replicas.
type Replicated struct {
	Replicas int
	// Wide are creations in a large range, Narrow creations until a range is full that was at 99 %.
	Wide, Narrow drawn
}

// drawn is creations, and what the replicas say about their addresses.
type drawn struct {
	turns
	// HandedOn counts the calls handed to the leader, Collisions the addresses drawn twice.
	HandedOn, Collisions float64
}

// measureReplicas measures one replica, and then two.
func (e *environment) measureReplicas(ctx context.Context, o Options) (all []Replicated, err error) {
	if err := e.fillNarrow(ctx); err != nil {
		return nil, fmt.Errorf("filling %s: %w", narrowRange, err)
	}
	for n := 1; n <= 2; n++ {
		if len(e.replicas) < n {
			if err := e.addReplica(ctx); err != nil {
				return all, err
			}
		}
		r, err := e.measureReplicated(ctx, o)
		if err != nil {
			return all, fmt.Errorf("measuring %d replicas: %w", n, err)
		}
		all = append(all, r)
	}
	return all, nil
}

func (e *environment) measureReplicated(ctx context.Context, o Options) (r Replicated, err error) {
	r.Replicas = len(e.replicas)
	l := o.loadOf(helpers)
	if r.Wide, err = e.repeat(ctx, o.Rounds, work{Load: l, one: e.create(nil), after: e.removeAll(l.Count)}); err != nil {
		return r, err
	}
	l.Count = left
	r.Narrow, err = e.repeat(ctx, o.FullRounds, work{Load: l, one: e.create(labelled(narrow)), after: e.removeAll(left)})
	e.log.Step("replicas: %d: %.0f per second, %.0f handed on; in the full range p50 %.2f ms, %.0f handed on, %.0f collisions", r.Replicas,
		r.Wide.Rates().Median(), r.Wide.HandedOn, r.Narrow.Latencies().Median(), r.Narrow.HandedOn, r.Narrow.Collisions)
	return r, err
}

// repeat takes turns, and counts what was handed on and what collided in them.
func (e *environment) repeat(ctx context.Context, times int, w work) (d drawn, err error) {
	if d.HandedOn, d.Collisions, err = e.counts(ctx); err != nil {
		return d, err
	}
	for range times {
		if err := e.take(ctx, w, &d.turns); err != nil {
			return d, err
		}
	}
	handedOn, collisions, err := e.counts(ctx)
	d.HandedOn, d.Collisions = handedOn-d.HandedOn, collisions-d.Collisions
	return d, err
}

// counts returns how many calls were handed on and addresses drawn twice since the replicas' start.
func (e *environment) counts(ctx context.Context) (handedOn, collisions float64, err error) {
	if handedOn, err = e.sum(ctx, decisionsTotal, "result", "handed-on"); err != nil {
		return 0, 0, err
	}
	collisions, err = e.sum(ctx, "clusterip_operator_admission_collisions_total")
	return handedOn, collisions, err
}

// fillNarrow makes a range that is full at 99 %, and a policy for it.
func (e *environment) fillNarrow(ctx context.Context) error {
	e.log.Step("filling %s", narrowRange)
	if err := e.offer(ctx, narrow, narrowRange); err != nil {
		return err
	}
	// The copies are behind those of Grow: the cluster must not grow any more.
	copies := seed.Copies{
		Etcd: e.Etcd.URL(), Template: cluster.Template, Ranges: []netip.Prefix{netip.MustParsePrefix(narrowRange)},
		From: e.Copies, To: e.Copies + narrowDynamic - left, Pace: seed.Pace,
	}
	for _, write := range []func(context.Context) error{copies.WriteIPAddresses, copies.WriteServices} {
		if err := write(ctx); err != nil {
			return err
		}
		if err := e.Settle(ctx, 10*time.Second); err != nil {
			return err
		}
	}
	_, err := load.Load{Workers: helpers, Count: 256}.Run(ctx, func(ctx context.Context, i int) error {
		address := fmt.Sprintf("10.65.%d.%d", (i+1)/256, (i+1)%256)
		return e.CreateService(ctx, fmt.Sprintf("static-%03d", i), framework.WithClusterIPs(address))
	})
	if err != nil {
		return err
	}
	p := newPolicy(narrow, narrow)
	p.Spec.OnFull = v1alpha1.OnFullFail
	return e.enforce(ctx, p)
}
