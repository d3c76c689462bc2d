package steering

import (
	"context"
	"errors"
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
	Name string
	// Wide: creations in a large range. Narrow: creations until a range is full that was at 99 %; left out for none.
	Wide, Narrow turns
	// How many addresses of each were settled with other replicas, through the API server, and how many tries of this were lost.
	WideSettled, NarrowSettled settled
}

// settled counts what was settled with others.
type settled struct{ Won, Lost float64 }

// measureReplicas measures one replica that has just started, one that is sure of what it may draw, and then two.
func (b *bed) measureReplicas(ctx context.Context, o Options) (all []Shared, err error) {
	if err := b.ask(ctx, true); err != nil {
		return nil, err
	}
	if err := b.fillNarrow(ctx); err != nil {
		return nil, fmt.Errorf("filling %s: %w", narrowRange, err)
	}
	for _, stage := range []struct {
		name    string
		prepare func(context.Context) error
		narrow  int
	}{
		{"1, in its first seconds", b.restart, 0},
		{"1", b.waitSure, o.FullRounds},
		{"2", func(ctx context.Context) error { return errors.Join(b.addReplica(ctx), b.waitSure(ctx)) }, o.FullRounds},
	} {
		if err := stage.prepare(ctx); err != nil {
			return all, err
		}
		s, err := b.measureShared(ctx, stage.name, o, stage.narrow)
		if err != nil {
			return all, fmt.Errorf("measuring replicas, %s: %w", stage.name, err)
		}
		all = append(all, s)
	}
	return all, b.policies.Delete(ctx, newPolicy(narrow))
}

func (b *bed) measureShared(ctx context.Context, name string, o Options, rounds int) (s Shared, err error) {
	s.Name = name
	l, times := o.loadOf(helpers), o.Rounds
	if rounds == 0 {
		times = 1 // before the first seconds are over
	}
	s.Wide, s.WideSettled, err = b.repeat(ctx, times, work{Load: l, one: b.create(nil), after: b.removeAll(l.Count)})
	if err != nil {
		return s, err
	}
	l.Count = left
	s.Narrow, s.NarrowSettled, err = b.repeat(ctx, rounds, work{Load: l, one: b.create(labelled(narrow)), after: b.removeAll(left)})
	b.log.Step("replicas: %s: %.0f per second, %.0f addresses settled; in the full range p50 %.2f ms, %.0f settled, %.0f lost", s.Name,
		s.Wide.sample(rate).Median(), s.WideSettled.Won, s.Narrow.latencies().Median(), s.NarrowSettled.Won, s.NarrowSettled.Lost)
	return s, err
}

// repeat takes turns, and counts what was settled in them.
func (b *bed) repeat(ctx context.Context, times int, w work) (all turns, c settled, err error) {
	before, err := b.claims(ctx)
	if err != nil {
		return nil, c, err
	}
	for range times {
		t, err := b.take(ctx, w)
		if err != nil {
			return all, c, err
		}
		all = append(all, t)
	}
	after, err := b.claims(ctx)
	return all, settled{after.Won - before.Won, after.Lost - before.Lost}, err
}

// waitSure waits until no replica settles with others, or with those who might be there, what it draws of its own.
func (b *bed) waitSure(ctx context.Context) error {
	const inRow = 8 // with several replicas the API server asks one or the other
	sure := 0
	return b.until(ctx, "replicas to be sure of what is theirs", func(ctx context.Context) (bool, error) {
		before, err := b.claims(ctx)
		if err != nil {
			return false, err
		}
		if err := errors.Join(b.create(nil)(ctx, 0), b.remove(ctx, 0)); err != nil {
			return false, err
		}
		after, err := b.claims(ctx)
		if sure++; after != before {
			sure = 0
		}
		return sure == inRow, err
	})
}

// claims returns how much was settled with other replicas so far.
func (b *bed) claims(ctx context.Context) (c settled, err error) {
	if c.Won, err = b.sum(ctx, "admission_claims_total", "result", "won"); err != nil {
		return c, err
	}
	c.Lost, err = b.sum(ctx, "admission_claims_total", "result", "lost")
	return c, err
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
