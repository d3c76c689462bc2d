package enforcement

import (
	"context"
	"maps"
	"net/netip"
	"slices"
	"sync/atomic"

	"k8s.io/client-go/util/workqueue"

	"github.com/clusterip-operator/clusterip-operator/controllers/internal/steering"
)

// changes is a source of what a change of policies or ranges makes worth a look: what the API server is given, each policy that has changed, and the used
// addresses of the ranges that it had or has.
func (r *Reconciler) changes() *steering.Changes[Request] {
	seen := steering.Compile(steering.Inputs{})
	return steering.NewChanges(r.Policies, func() []Request {
		now := r.Policies.Current()
		requests := between(seen, now, r.used)
		seen = now
		return requests
	})
}

// between returns what differs between two compilations. used returns the used addresses of a range.
func between(before, after *steering.Compiled, used func(netip.Prefix) []netip.Addr) []Request {
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
		for _, a := range used(prefix) {
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
