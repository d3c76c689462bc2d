package enforcement

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/clusterip-operator/clusterip-operator/controllers/internal/steering"
)

// changes is a source of what a change of policies or ranges makes worth a look: what the API server is given, each policy that has changed, and the used addresses of
// the ranges that it had or has.
type changes struct {
	policies Policies
	used     func(netip.Prefix) []netip.Addr
}

var _ source.TypedSyncingSource[Request] = (*changes)(nil)

// Start implements source.TypedSource. Comparing is done apart from the subscription, which must not block; what changes meanwhile is compared next.
func (c *changes) Start(ctx context.Context, queue workqueue.TypedRateLimitingInterface[Request]) error {
	changed := make(chan struct{}, 1)
	changed <- struct{}{}
	c.policies.Subscribe(func(_, _ *steering.Snapshot) {
		select {
		case changed <- struct{}{}:
		default:
		}
	})
	go func() {
		seen := steering.Compile(steering.World{})
		for {
			select {
			case <-ctx.Done():
				return
			case <-changed:
			}
			now := c.policies.Current()
			for _, request := range c.between(seen, now) {
				queue.Add(request)
			}
			seen = now
		}
	}()
	return nil
}

// WaitForSync implements source.TypedSyncingSource: half of the policies would open what the others close.
func (c *changes) WaitForSync(ctx context.Context) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !c.policies.Synced() {
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for the policies: %w", ctx.Err())
		case <-tick.C:
		}
	}
	return nil
}

// String names the source in the controller's log.
func (c *changes) String() string { return "policies" }

// between returns what differs between two compilations.
func (c *changes) between(before, after *steering.Snapshot) []Request {
	out := []Request{{}}
	touched := map[netip.Prefix]struct{}{}
	for _, p := range slices.Concat(before.Policies(), after.Policies()) {
		if same(before.Policy(p.Name), after.Policy(p.Name)) {
			continue
		}
		out = append(out, Request{Policy: p.Name})
		for _, prefix := range p.Claimed {
			touched[prefix] = struct{}{}
		}
	}
	for prefix := range maps.Keys(touched) {
		for _, a := range c.used(prefix) {
			out = append(out, Request{Address: a})
		}
	}
	return out
}

// wake is a source of what the Reconciler itself makes worth a look. The zero value is ready.
type wake struct {
	queue atomic.Pointer[workqueue.TypedRateLimitingInterface[Request]]
}

// Start implements source.TypedSource.
func (w *wake) Start(_ context.Context, queue workqueue.TypedRateLimitingInterface[Request]) error {
	w.queue.Store(&queue)
	return nil
}

func (w *wake) add(request Request) {
	if queue := w.queue.Load(); queue != nil {
		(*queue).Add(request)
	}
}
