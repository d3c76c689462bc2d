package conntrack

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// Reconciler deletes stale UDP flows of one family. It has to get every Delta, in order, after the rules for it are in the kernel. It must not
// be used by several goroutines at once.
//
// Costs: nothing for a Delta that makes no flow stale, as other protocols or more endpoints than before; otherwise one reading of the UDP
// flows and one message for each that is deleted.
type Reconciler struct {
	family model.Family
	table  Table
	index  *portIndex
	// suspects are the frontends that may have stale flows, former the earlier addresses of node ports at which they may be.
	suspects map[netip.AddrPort]bool
	former   []nodeAddrs
}

// New returns a Reconciler that knows no port.
func New(family model.Family, t Table) *Reconciler {
	return &Reconciler{family: family, table: t, index: newPortIndex(), suspects: make(map[netip.AddrPort]bool)}
}

// Start takes over a Plan whose rules are in the kernel, and deletes the flows that are stale by it. Flows to addresses inside of its Ranges
// that it does not serve are deleted too if they were translated: of Services that were deleted while no agent ran.
//
// It may be called again after a failure: ports that the Reconciler knows and the Plan does not have count as removed. After an error the next
// Reconcile looks at the flows of the Plan's ports and of removed ones again; at those of unknown Services only another Start does.
func (r *Reconciler) Start(ctx context.Context, plan model.Plan) (deleted int, err error) {
	r.suspectAll()
	r.former = append(r.former, r.index.nodes)
	r.index = newPortIndex()
	r.index.nodes = nodeAddrsOf(plan.Globals)
	for name, port := range plan.Ports {
		if name.Protocol == model.UDP {
			r.index.add(name, port)
		}
	}
	r.suspectAll()
	if len(plan.Globals.Ranges) > 0 {
		return r.clean(ctx, abandonedBy(plan))
	}
	return r.reconcile(ctx)
}

// Reconcile deletes the flows that are stale since d, and returns how many. After an error it tries again with the next Delta, which may be
// an empty one.
func (r *Reconciler) Reconcile(ctx context.Context, globals model.Globals, d model.Delta) (deleted int, err error) {
	r.suspect(r.index.apply(d))
	if now := nodeAddrsOf(globals); !r.index.nodes.equal(now) {
		r.former = append(r.former, r.index.nodes)
		r.suspect(r.index.setNodeAddrs(now))
	}
	return r.reconcile(ctx)
}

// suspectAll suspects everything in the index.
func (r *Reconciler) suspectAll() {
	for f := range r.index.owners {
		r.suspects[f] = true
	}
}

func (r *Reconciler) suspect(frontends []netip.AddrPort) {
	for _, f := range frontends {
		r.suspects[f] = true
	}
}

func (r *Reconciler) reconcile(ctx context.Context) (int, error) {
	if len(r.suspects) == 0 {
		r.former = nil
		return 0, nil
	}
	return r.clean(ctx, nil)
}

// clean reads the table once and deletes the stale flows. After an error the suspects stay.
func (r *Reconciler) clean(ctx context.Context, abandoned func(netip.AddrPort) bool) (int, error) {
	local, err := r.localAddrs()
	if err != nil {
		return 0, err
	}
	check := staleCheck{index: r.index, suspects: r.suspects, former: r.former, local: local, abandoned: abandoned}
	flows, err := r.table.Flows(ctx, r.family, check.stale)
	if err != nil {
		return 0, fmt.Errorf("reading the UDP flows of %v: %w", r.family, err)
	}
	deleted, err := r.delete(ctx, flows)
	if err == nil {
		clear(r.suspects)
		r.former = nil
	}
	return deleted, err
}

// localAddrs returns the addresses of the node if a suspect is a node port, or has the number of one.
func (r *Reconciler) localAddrs() (map[netip.Addr]bool, error) {
	local := make(map[netip.Addr]bool)
	needed := func(f netip.AddrPort) bool { return !f.Addr().IsValid() || r.index.overlapsNodePort(f) }
	if !slices.ContainsFunc(slices.Collect(maps.Keys(r.suspects)), needed) {
		return local, nil
	}
	addrs, err := r.table.LocalAddrs()
	if err != nil {
		return nil, fmt.Errorf("reading the addresses of the node: %w", err)
	}
	for _, addr := range addrs {
		local[addr] = true
	}
	return local, nil
}

func (r *Reconciler) delete(ctx context.Context, flows []Flow) (int, error) {
	deleted := 0
	var wrong []error
	for _, f := range flows {
		if ctx.Err() != nil {
			return deleted, errors.Join(append(wrong, ctx.Err())...)
		}
		switch there, err := r.table.Delete(ctx, f); {
		case err != nil:
			wrong = append(wrong, fmt.Errorf("deleting the UDP flow from %v to %v: %w", f.Source, f.Destination, err))
		case there:
			deleted++
		}
	}
	return deleted, errors.Join(wrong...)
}
