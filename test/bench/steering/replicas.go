package steering

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/test/bench/cluster"
	"github.com/clusterip-operator/clusterip-operator/test/bench/load"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
)

const (
	// narrow is the name of the range that is at 99 %, and of its policy.
	narrow, narrowRange = "narrow", "10.65.0.0/20"
	// left of its 4,094 addresses are free. Copies fill its dynamic band but for these, and the static band, which tools do not
	// scatter copies over, is filled by Services that choose their addresses.
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
	// HandedOn is how many calls were handed on to the leader, Collisions how many addresses were drawn twice.
	HandedOn, Collisions float64
}

// measureReplicas measures one replica, and then two.
func (b *bed) measureReplicas(ctx context.Context, o Options) (all []Replicated, err error) {
	if err := b.fillNarrow(ctx); err != nil {
		return nil, fmt.Errorf("filling %s: %w", narrowRange, err)
	}
	for n := 1; n <= 2; n++ {
		if len(b.replicas) < n {
			if err := b.addReplica(ctx); err != nil {
				return all, err
			}
		}
		r, err := b.measureReplicated(ctx, o)
		if err != nil {
			return all, fmt.Errorf("measuring %d replicas: %w", n, err)
		}
		all = append(all, r)
	}
	return all, nil
}

func (b *bed) measureReplicated(ctx context.Context, o Options) (r Replicated, err error) {
	r.Replicas = len(b.replicas)
	l := o.loadOf(helpers)
	if r.Wide, err = b.repeat(ctx, o.Rounds, work{Load: l, one: b.create(nil), after: b.removeAll(l.Count)}); err != nil {
		return r, err
	}
	l.Count = left
	r.Narrow, err = b.repeat(ctx, o.FullRounds, work{Load: l, one: b.create(labelled(narrow)), after: b.removeAll(left)})
	b.log.Step("replicas: %d: %.0f per second, %.0f handed on; in the full range p50 %.2f ms, %.0f handed on, %.0f collisions", r.Replicas,
		r.Wide.sample(rate).Median(), r.Wide.HandedOn, r.Narrow.latencies().Median(), r.Narrow.HandedOn, r.Narrow.Collisions)
	return r, err
}

// repeat takes turns, and counts what was handed on and what collided in them.
func (b *bed) repeat(ctx context.Context, times int, w work) (d drawn, err error) {
	if d.HandedOn, d.Collisions, err = b.counts(ctx); err != nil {
		return d, err
	}
	for range times {
		t, err := b.take(ctx, w)
		if err != nil {
			return d, err
		}
		d.turns = append(d.turns, t)
	}
	handedOn, collisions, err := b.counts(ctx)
	d.HandedOn, d.Collisions = handedOn-d.HandedOn, collisions-d.Collisions
	return d, err
}

// counts returns how many calls were handed on, and how many addresses were drawn twice, since the replicas started.
func (b *bed) counts(ctx context.Context) (handedOn, collisions float64, err error) {
	if handedOn, err = b.sum(ctx, decisionsTotal, "result", "handed-on"); err != nil {
		return 0, 0, err
	}
	collisions, err = b.sum(ctx, "clusterip_operator_admission_collisions_total")
	return handedOn, collisions, err
}

// fillNarrow makes a range that is full at 99 %, and a policy for it.
func (b *bed) fillNarrow(ctx context.Context) error {
	b.log.Step("filling %s", narrowRange)
	if err := b.offer(ctx, narrow, narrowRange); err != nil {
		return err
	}
	for _, kind := range []string{"ipaddresses", "services"} {
		if err := b.copyInto(ctx, kind, narrowRange, narrowDynamic-left); err != nil {
			return err
		}
		if err := b.Settle(ctx, 10*time.Second); err != nil {
			return err
		}
	}
	_, err := load.Load{Workers: helpers, Count: 256}.Run(ctx, func(ctx context.Context, i int) error {
		service := framework.NewService(cluster.Namespace, fmt.Sprintf("static-%03d", i), framework.WithClusterIPs(fmt.Sprintf("10.65.%d.%d", (i+1)/256, (i+1)%256)))
		_, err := b.Client.CoreV1().Services(cluster.Namespace).Create(ctx, service, metav1.CreateOptions{})
		return err
	})
	if err != nil {
		return err
	}
	p := newPolicy(narrow, narrow)
	p.Spec.OnFull = v1alpha1.OnFullFail
	return b.enforce(ctx, p)
}

// copyInto writes copies of the template into a range, behind those of Grow. The cluster must not grow any more.
func (b *bed) copyInto(ctx context.Context, kind, cidr string, n int) error {
	return cluster.Peer(ctx, nil, "seed", "--etcd="+b.Etcd.URL(), "--template="+cluster.Namespace+"/template", "--range="+cidr,
		"--kind="+kind, fmt.Sprintf("--from=%d", b.Copies), fmt.Sprintf("--to=%d", b.Copies+n))
}
