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

// Shared is what was measured with some replicas.
type Shared struct {
	Replicas int
	// Wide: creations in a large range. Narrow: creations until a range is full that was at 99 %.
	Wide, Narrow turns
	// Settled is how many of the latter's addresses were settled with another replica, Lost how many tries of this were lost.
	Settled, Lost float64
}

// measureReplicas measures one replica, and then two.
func (b *bed) measureReplicas(ctx context.Context, o Options) (all []Shared, err error) {
	if err := b.ask(ctx, true); err != nil {
		return nil, err
	}
	if err := b.fillNarrow(ctx); err != nil {
		return nil, fmt.Errorf("filling %s: %w", narrowRange, err)
	}
	for len(all) < 2 {
		if len(all) > 0 {
			if err := b.addReplica(ctx); err != nil {
				return all, err
			}
		}
		s, err := b.measureShared(ctx, o)
		if err != nil {
			return all, fmt.Errorf("measuring %d replicas: %w", len(b.replicas), err)
		}
		all = append(all, s)
	}
	return all, b.policies.Delete(ctx, newPolicy(narrow))
}

func (b *bed) measureShared(ctx context.Context, o Options) (s Shared, err error) {
	s.Replicas = len(b.replicas)
	for range o.Rounds {
		l := o.loadOf(helpers)
		t, err := b.take(ctx, work{Load: l, one: b.create(nil), after: b.removeAll(l.Count)})
		if err != nil {
			return s, err
		}
		s.Wide = append(s.Wide, t)
	}
	won, lost, err := b.claims(ctx)
	if err != nil {
		return s, err
	}
	for range o.FullRounds {
		t, err := b.take(ctx, work{Load: load.Load{Workers: helpers, Count: left}, one: b.create(labelled(narrow)), after: b.removeAll(left)})
		if err != nil {
			return s, err
		}
		s.Narrow = append(s.Narrow, t)
	}
	s.Settled, s.Lost, err = b.claims(ctx)
	s.Settled, s.Lost = s.Settled-won, s.Lost-lost
	b.log.Step("replicas: %d: %.0f per second; p50 %.2f ms in the full range, %.0f addresses settled, %.0f lost", s.Replicas,
		s.Wide.sample(rate).Median(), s.Narrow.latencies().Median(), s.Settled, s.Lost)
	return s, err
}

// claims returns how many addresses were settled with other replicas, and how many times one was lost.
func (b *bed) claims(ctx context.Context) (won, lost float64, err error) {
	if won, err = b.sum(ctx, "admission_claims_total", "result", "won"); err != nil {
		return 0, 0, err
	}
	lost, err = b.sum(ctx, "admission_claims_total", "result", "lost")
	return won, lost, err
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
