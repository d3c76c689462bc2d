package proxyagent

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/compile"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// confirmation is how long a dispute lasts before it becomes an event: while a Service is
// recreated, the old and the new one both claim its address for a moment.
const confirmation = 5 * time.Second

// maxTriggers is how many trigger times a family that cannot be programmed keeps: the oldest.
const maxTriggers = 10000

// maxEvents is how many disputes, and how many degradations, of a family become events, and
// maxOfNamespace how many of those are of one namespace; metrics count all. A tenant who may create
// Services could otherwise make every node write thousands, or hide those of other tenants.
const maxEvents, maxOfNamespace = 50, 10

// quota returns what tells whether a namespace may have another event, and counts it.
func quota() (take func(namespace string) bool) {
	all, of := 0, map[string]int{}
	return func(namespace string) bool {
		if all == maxEvents || of[namespace] == maxOfNamespace {
			return false
		}
		all, of[namespace] = all+1, of[namespace]+1
		return true
	}
}

// family is the work for one IP family.
type family struct {
	Family
	Options
	woken    chan struct{} // holds one when there are changes
	schedule schedule
	given    model.Changes // by other families that took them from the source
	taken    int           // how often the source had had changes when all was in the kernel

	mu       sync.Mutex // for compiler: Dump reads while the loop writes
	compiler *compile.Compiler
	compiled bool // the compiler knows what the source had at the start
	globals  model.Globals

	checks    sync.WaitGroup // one of each kind, beside the loop
	checking  bool
	checked   chan checked
	searching bool
	searched  chan func(context.Context) (more bool)

	failed   bool // the last sync failed
	served   bool // one succeeded
	unneeded bool // what failed is of no use to the cluster
	retry    wait.Backoff
	retryAt  time.Time
	waiting  []model.Delta // compiled, not yet passed to the backend
	flowsAll bool          // flows of all ports have to be looked at, with the next sync
	triggers []time.Time   // of changes that are not in the kernel yet
	local    noLocal
	disputes map[model.Dispute]*disputeState
	degraded map[model.Degradation]struct{} // that have been told
}

// noLocal counts ports whose policy is Local and which have endpoints only elsewhere.
type noLocal struct{ internal, external int }

type disputeState struct {
	since    time.Time
	reported bool
}

// retries are the pauses before a failed sync is tried again: from a second on they double.
func retries() wait.Backoff {
	return wait.Backoff{Duration: time.Second, Factor: 2, Steps: 10, Cap: 30 * time.Second}
}

func newFamily(f Family, o Options) *family {
	return &family{
		Family: f, Options: o, woken: make(chan struct{}, 1), schedule: schedule{pause: o.MinSyncPeriod}, compiler: compile.New(f.Settings),
		checked: make(chan checked, 1), searched: make(chan func(context.Context) bool, 1), flowsAll: true, failed: true, retry: retries(), disputes: map[model.Dispute]*disputeState{},
	}
}

func (f *family) log(ctx context.Context) logr.Logger {
	return logr.FromContextOrDiscard(ctx).WithValues("family", f.Settings.Family)
}

// wake tells the loop that there are changes.
func (f *family) wake() {
	select {
	case f.woken <- struct{}{}:
	default: // it knows already
	}
}

// queued schedules a round and reports pending work.
func (f *family) queued() {
	now := time.Now()
	f.schedule.want(now)
	f.Health.Queued(f.Settings.Family)
	f.Metrics.Queued(f.Settings.Family, now)
}

// scheduleNext plans a round after one that failed, after a back-off, or for the next search.
func (f *family) scheduleNext(now time.Time) {
	if f.failed {
		f.schedule.again(now, f.retryAt)
	} else if next := f.Flows.Next(); !next.IsZero() && !f.searching {
		f.schedule.again(now, next)
	}
}

// program compiles changes and writes them, with those that an earlier round could not write.
// During the back-off after a failure, changes are only compiled and kept.
func (f *family) program(ctx context.Context, changes model.Changes) {
	start := time.Now()
	delta := f.compile(changes)
	f.triggers = append(f.triggers, changes.Triggers[:min(len(changes.Triggers), maxTriggers-len(f.triggers))]...)
	if !delta.Empty() {
		f.waiting = append(f.waiting, delta)
	}
	switch {
	case f.failed && start.Before(f.retryAt):
		return
	case len(f.waiting) > 0 || f.failed:
		f.sync(ctx, start)
	default:
		f.search(ctx)
		f.done()
	}
}

// sync writes the pending deltas.
func (f *family) sync(ctx context.Context, start time.Time) {
	deltas := f.waiting
	f.waiting = nil // the backend keeps them, also after a failure
	full, err := f.Backend.Sync(ctx, deltas...)
	f.Metrics.SyncDone(f.Settings.Family, full, time.Since(start), time.Now(), err)
	if err != nil {
		f.fail(ctx, err, "Programming failed and will be tried again")
		return
	}
	f.failed, f.served, f.unneeded = false, true, false
	f.retry = retries()
	total, written := f.Backend.Counts()
	f.Metrics.Rules(f.Settings.Family, total, written)
	f.Metrics.NoLocalEndpoints(f.Settings.Family, f.local.internal, f.local.external)
	f.log(ctx).V(2).Info("Programmed", "deltas", len(deltas), "full", full, "took", time.Since(start))
	f.flows(ctx, deltas)
	f.done()
}

// fail records that the kernel may differ from the plan, and when to try again. If the family is
// optional and the cluster has nothing of it, the agent stays healthy: nodes of clusters without
// IPv6 often lack its modules.
func (f *family) fail(ctx context.Context, err error, message string) {
	f.failed, f.flowsAll = true, true
	f.retryAt = time.Now().Add(f.retry.Step())
	if f.Optional && !f.served && len(f.globals.Ranges) == 0 && len(f.compiler.Plan().Ports) == 0 {
		if !f.unneeded {
			f.log(ctx).Info("This node cannot serve a family of which the cluster has no Service", "reason", err.Error())
		}
		f.unneeded = true
		f.done()
		return
	}
	f.unneeded = false
	f.Health.Queued(f.Settings.Family) // there is work, even if nothing changed
	f.Metrics.RestoreFailed(f.Settings.Family)
	if ctx.Err() == nil {
		f.log(ctx).Error(err, message)
	}
}

func (f *family) compile(changes model.Changes) model.Delta {
	f.mu.Lock()
	defer f.mu.Unlock()
	delta := f.compiler.Apply(changes)
	f.compiled = true
	if delta.Globals != nil {
		f.globals = *delta.Globals
	}
	for name, port := range delta.Ports {
		if before, was := delta.Before[name]; was {
			f.local.add(before, -1)
		}
		if port != nil {
			f.local.add(*port, 1)
		}
	}
	return delta
}

func (n *noLocal) add(p model.ServicePort, times int) {
	if !p.HasEndpoints || len(p.Local) > 0 {
		return
	}
	if p.InternalLocal {
		n.internal += times
	}
	if p.ExternalLocal && p.HasExternal() {
		n.external += times
	}
}

// done reports that all changes so far are in the kernel.
func (f *family) done() {
	f.Metrics.Programmed(f.Settings.Family, f.triggers, time.Now())
	f.triggers = nil
	f.Health.Updated(f.Settings.Family)
}

// flows has stale connections looked for. The rules are correct already.
func (f *family) flows(ctx context.Context, deltas []model.Delta) {
	if f.flowsAll {
		f.Flows.Start(f.compiler.Plan(), f.Backend.Served(), time.Now())
	} else {
		f.Flows.Reconcile(f.globals, deltas[0], time.Now()) // there are several only after a failure
	}
	f.flowsAll = false
	f.search(ctx)
}

// search begins to look for stale connections if that is due, unless it still does: reading many
// takes seconds, which changes must not wait for. The loop gets what deletes them from f.searched.
func (f *family) search(ctx context.Context) {
	if f.searching {
		return
	}
	start := time.Now()
	read := f.Flows.Search(start)
	if read == nil {
		return
	}
	f.searching = true
	f.checks.Go(func() {
		remove, deleted := read(ctx), 0
		f.searched <- func(ctx context.Context) (more bool) {
			n, more, err := remove(ctx)
			deleted += n
			if more {
				return true
			}
			f.Metrics.ConntrackDone(f.Settings.Family, time.Since(start), deleted)
			if err != nil && ctx.Err() == nil {
				f.log(ctx).Error(err, "Removing stale connections failed and will be tried again")
			}
			return false
		}
	})
}

// found deletes some of the stale connections that a search has found, and has the rest wait for
// their turn; after the last it plans the next search.
func (f *family) found(ctx context.Context, remove func(context.Context) (more bool)) {
	if remove(ctx) {
		f.searched <- remove
		return
	}
	f.searching = false
	f.scheduleNext(time.Now())
}

// check reports lasting disputes and what ports lack, and looks for changes by other programs
// unless it still does, beside the loop: that takes seconds. f.checked gets the result.
func (f *family) check(ctx context.Context) {
	now := time.Now()
	f.reportDisputes(now)
	f.reportDegradations()
	if f.failed || f.checking {
		return
	}
	f.checking = true
	f.checks.Go(func() {
		repaired, err := f.Backend.Check(ctx, now)
		f.checked <- checked{repaired, err}
	})
}

// checked is what Backend.Check returned.
type checked struct {
	repaired []string
	err      error
}

// report tells what a check repaired.
func (f *family) report(ctx context.Context, c checked) {
	f.checking = false
	switch repaired := c.repaired; {
	case c.err != nil:
		f.fail(ctx, c.err, "Repairing what others changed failed and will be tried again")
		f.schedule.again(time.Now(), f.retryAt)
	case len(repaired) > 0:
		for _, what := range repaired {
			kind, _, _ := strings.Cut(what, " ")
			f.Metrics.Repaired(f.Settings.Family, kind)
		}
		f.log(ctx).Info("Repaired what another program changed", "count", len(repaired), "first", repaired[:min(len(repaired), 5)])
	}
}

// reportDisputes reports each dispute once, and only if it lasts.
func (f *family) reportDisputes(now time.Time) {
	f.mu.Lock()
	current := f.compiler.Disputes()
	f.mu.Unlock()
	f.Metrics.Disputed(f.Settings.Family, current)
	next := make(map[model.Dispute]*disputeState, len(current))
	take := quota()
	for _, d := range current {
		next[d] = cmp.Or(f.disputes[d], &disputeState{since: now})
		if next[d].reported {
			take(d.Loser.Namespace)
		}
	}
	for _, d := range current {
		if c := next[d]; !c.reported && now.Sub(c.since) >= confirmation && take(d.Loser.Namespace) {
			c.reported = true
			f.Events.Disputed(d)
		}
	}
	f.disputes = next
}

// reportDegradations reports each once as long as it lasts.
func (f *family) reportDegradations() {
	current := f.Backend.Degraded()
	f.mu.Lock()
	current = append(current, f.compiler.Degraded()...)
	f.mu.Unlock()
	// The worst come first: many invalid annotations must not hide that a port is not served.
	slices.SortStableFunc(current, func(a, b model.Degradation) int {
		return cmp.Compare(slices.Index(model.DegradationReasons, a.Reason), slices.Index(model.DegradationReasons, b.Reason))
	})
	f.Metrics.Degraded(f.Settings.Family, current)
	told, take := make(map[model.Degradation]struct{}, maxEvents), quota()
	for _, d := range current {
		if !take(d.Port.Service.Namespace) {
			continue
		}
		what := d
		what.Detail = "" // that of another try may differ
		if _, known := f.degraded[what]; !known {
			f.Events.Degraded(f.Settings.Family, d)
		}
		told[what] = struct{}{}
	}
	f.degraded = told
}

// describe returns how a Service is served.
func (f *family) describe(n model.ServiceName) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var text strings.Builder
	fmt.Fprint(&text, f.compiler.Explain(n))
	for _, d := range f.Backend.Degraded() {
		if d.Port.Service == n && d.Detail != "" {
			fmt.Fprintf(&text, "%s: %s: %s\n", d.Port, d.Reason, d.Detail)
		}
	}
	for _, port := range f.portsOf(n) {
		fmt.Fprintf(&text, "\n%s\n", strings.Join(f.Backend.Describe(port), "\n"))
	}
	text.WriteByte('\n')
	return text.String()
}

func (f *family) portsOf(n model.ServiceName) []model.PortName {
	var ports []model.PortName
	for name := range f.compiler.Plan().Ports {
		if name.Service == n {
			ports = append(ports, name)
		}
	}
	slices.SortFunc(ports, model.PortName.Compare)
	return ports
}

func (f *family) claimants(addr netip.Addr) []model.ServiceName {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.compiler.Claimants(addr)
}

func (f *family) overview() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	plan := f.compiler.Plan()
	total, _ := f.Backend.Counts()
	parts := []string{fmt.Sprintf("%s: %d Service ports, %d disputed addresses, %d ServiceCIDRs", f.Settings.Family, len(plan.Ports), len(f.compiler.Disputes()), len(plan.Globals.Ranges))}
	for _, table := range slices.Sorted(maps.Keys(total)) {
		parts = append(parts, fmt.Sprintf("%d rules or elements in %s", total[table], table))
	}
	for _, d := range f.Backend.Degraded() {
		if d.Table != "" {
			parts = append(parts, fmt.Sprintf("table %s: %s", d.Table, d.Reason))
		}
	}
	return strings.Join(parts, ", ") + "\n"
}
