package conntrack

import (
	"time"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

const (
	// settle is how long a front of TCP is left alone after a change. A connection that is being
	// opened just then is unanswered and must not be cut; clients ask again after a second.
	settle = time.Second
	// share limits reading the table to a tenth of the time: the kernel walks all of it, however
	// few flows it sends.
	share = 10
	// retry is when a search that failed is tried again.
	retry = 10 * time.Second
)

// Reconciler deletes stale flows of one family. It has to get every Delta, in order, after the
// rules for it are in the kernel. Its methods must not be called by several goroutines at once;
// what Search returns runs beside them.
//
// Costs: nothing for a Delta that makes no flow stale, as one with more endpoints than before;
// otherwise one walk of the kernel's table for each protocol concerned, however many Deltas came
// meanwhile, and one message for each flow that is deleted.
type Reconciler struct {
	family model.Family
	table  Table
	index  *portIndex
	// suspects may have stale flows: front -> when it may be looked at. former are the earlier
	// addresses of node ports at which there may be some.
	suspects map[front]time.Time
	former   []nodeAddrs
	// abandoned is not nil until the first search has succeeded.
	abandoned func(front) bool
	earliest  time.Time     // of the next search
	took      time.Duration // by the last one
}

// New returns a Reconciler that knows no port.
func New(family model.Family, t Table) *Reconciler {
	return &Reconciler{family: family, table: t, index: newPortIndex(), suspects: make(map[front]time.Time)}
}

// Start takes over a Plan whose rules are in the kernel: all of its fronts may have stale flows.
// Those of UDP and SCTP to addresses inside of its Ranges that it does not serve are stale too if
// they were translated: of Services that were deleted while no agent ran. So are those to the
// fronts of before, which the rules of an earlier agent served.
//
// It may be called again after a failure: fronts that the Reconciler knows and the Plan does not
// have count as removed.
func (r *Reconciler) Start(plan model.Plan, before []model.ServicePort, now time.Time) {
	for _, port := range before {
		r.suspect(now, frontsOf(port)...)
	}
	r.suspectAll(now)
	if !r.index.nodes.equal(nodeAddrs{}) {
		r.former = append(r.former, r.index.nodes)
	}
	r.index = newPortIndex()
	r.index.nodes = nodeAddrsOf(plan.Globals)
	for _, port := range plan.Ports {
		r.index.add(port)
	}
	r.suspectAll(now)
	if len(plan.Globals.Ranges) > 0 {
		r.abandoned, r.earliest = abandonedBy(plan), model.Later(r.earliest, now)
	}
}

// Reconcile takes in what changed.
func (r *Reconciler) Reconcile(globals model.Globals, d model.Delta, now time.Time) {
	r.suspect(now, r.index.apply(d)...)
	if nodes := nodeAddrsOf(globals); !r.index.nodes.equal(nodes) {
		r.former = append(r.former, r.index.nodes)
		r.suspect(now, r.index.setNodeAddrs(nodes)...)
	}
}

func (r *Reconciler) suspectAll(now time.Time) {
	for f := range r.index.owners {
		r.suspect(now, f)
	}
}

func (r *Reconciler) suspect(now time.Time, fronts ...front) {
	for _, f := range fronts {
		if f.protocol == model.TCP {
			r.suspects[f] = now.Add(settle)
		} else {
			r.suspects[f] = now
		}
	}
}

// Next is when the next search is due, zero when there is nothing to look for.
func (r *Reconciler) Next() (next time.Time) {
	if r.abandoned != nil {
		return r.earliest
	}
	for _, at := range r.suspects {
		if next.IsZero() || at.Before(next) {
			next = at
		}
	}
	if next.IsZero() {
		return next
	}
	return model.Later(next, r.earliest)
}
