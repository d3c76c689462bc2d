package proxyagent

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/compile"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// addressPeriod is how often the addresses of interfaces are read again.
const addressPeriod = 10 * time.Second

// Agent runs a loop for each family; none waits for another. Make it with [New], Run it once.
type Agent struct {
	Options
	families []*family

	mu          sync.Mutex   // for all below, and for what families have been given: each takes changes for all
	addresses   []netip.Addr // of interfaces, as the compilers know them
	addressesAt time.Time
	started     bool                              // the source has been asked once
	taken       int                               // how often it had changes
	checks      map[model.ServiceName]healthCheck // answered once the rules are written
	services    int                               // events not yet programmed, for the metrics
	endpoints   int
}

// New returns an agent that does nothing yet.
func New(o Options) *Agent {
	a := &Agent{Options: o, checks: map[model.ServiceName]healthCheck{}}
	for _, f := range o.Families {
		a.families = append(a.families, newFamily(f, o))
	}
	return a
}

// Run waits for the source and then keeps the kernel up to date until ctx ends. The rules stay.
func (a *Agent) Run(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-a.Source.Ready():
	}
	var loops sync.WaitGroup
	for _, f := range a.families {
		loops.Go(func() { a.loop(ctx, f) })
	}
	loops.Go(func() { a.countFormer(ctx) })
	a.listen(ctx)
	loops.Wait()
	return nil
}

// listen tells all families and Health of changes, also while a loop is blocked in the kernel.
func (a *Agent) listen(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.Source.Wake():
		}
		for _, f := range a.families {
			a.Health.Queued(f.Settings.Family)
			f.wake()
		}
	}
}

// loop keeps the rules of one family up to date.
func (a *Agent) loop(ctx context.Context, f *family) {
	probe := time.NewTicker(a.ProbePeriod)
	defer probe.Stop()
	defer f.checks.Wait()
	a.round(ctx, f)
	for {
		select {
		case <-ctx.Done():
			return
		case <-f.woken:
			f.queued()
		case <-f.schedule.due():
			a.round(ctx, f)
		case <-probe.C:
			a.probe(ctx, f)
		case c := <-f.checked:
			f.report(ctx, c)
		case remove := <-f.searched:
			f.found(ctx, remove)
		}
	}
}

// round takes the changes and programs them.
func (a *Agent) round(ctx context.Context, f *family) {
	changes, taken := a.take(ctx, f)
	f.program(ctx, changes)
	f.schedule.done(time.Now())
	f.scheduleNext(time.Now())
	if !f.failed || f.unneeded {
		a.programmed(f, taken)
	}
}

// programmed tells load balancers, which probe one family, and metrics what the kernel has by now.
func (a *Agent) programmed(f *family, taken int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	f.taken = taken
	for name, check := range a.checks {
		if check.taken <= taken {
			a.HealthChecks.Set(name, check.port, check.local)
			delete(a.checks, name)
		}
	}
	if slices.ContainsFunc(a.families, func(f *family) bool { return f.taken < a.taken }) {
		return
	}
	a.Metrics.ChangesDone(a.services, a.endpoints)
	a.services, a.endpoints = 0, 0
}

// take returns what a family has to program: what it was given before, then what the source has,
// which other families are given too. It also returns how often the source had changes until then.
func (a *Agent) take(ctx context.Context, f *family) (model.Changes, int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	select {
	case <-f.woken: // for what is taken now
	default:
	}
	changes := a.fresh(ctx)
	for _, other := range a.families {
		other.given = other.given.And(changes)
		other.given.Triggers = other.given.Triggers[:min(len(other.given.Triggers), maxTriggers)]
		if other != f && !changes.Empty() {
			other.wake() // no watch tells what changed on the node
		}
	}
	changes, f.given = f.given, model.Changes{}
	return changes, a.taken
}

// fresh gets the changes from the source and passes them to everything that needs no rules.
func (a *Agent) fresh(ctx context.Context) model.Changes {
	changes := a.Source.Take()
	if changes.ServiceEvents+changes.EndpointEvents > 0 {
		a.Metrics.Changed(changes.ServiceEvents, changes.EndpointEvents)
	}
	a.services += changes.ServiceEvents
	a.endpoints += changes.EndpointEvents
	if !a.started && changes.Node == nil {
		changes.Node = &model.Node{Name: a.NodeName} // not registered: local endpoints are recognised by the node name
	}
	a.started = true
	if addresses, changed := a.localAddresses(ctx); changed {
		changes.LocalAddrs = &addresses
	}
	if changes.Node != nil {
		a.Health.SetNodeLeaving(changes.Node.Leaving)
	}
	if !changes.Empty() || changes.ServiceEvents+changes.EndpointEvents > 0 {
		a.taken++
	}
	for name, service := range changes.Services {
		a.healthCheck(name, service)
	}
	return changes
}

// healthCheck is a health check node port with the number of endpoints that it reports.
type healthCheck struct {
	port  uint16
	local int
	taken int // with which changes it came
}

// healthCheck makes a Service unhealthy to load balancers at once, healthy once rules are written.
func (a *Agent) healthCheck(name model.ServiceName, service *model.Service) {
	var check healthCheck
	if service != nil {
		check.port, check.local, _ = compile.HealthCheck(a.NodeName, *service)
	}
	check.taken = a.taken
	if check.local > 0 {
		a.checks[name] = check
		return
	}
	delete(a.checks, name)
	a.HealthChecks.Set(name, check.port, 0)
}

// localAddresses returns the interfaces' addresses, if settings need them, and if they changed.
func (a *Agent) localAddresses(ctx context.Context) ([]netip.Addr, bool) {
	if a.LocalAddrs == nil || time.Since(a.addressesAt) < addressPeriod {
		return nil, false
	}
	a.addressesAt = time.Now()
	addresses, err := a.LocalAddrs()
	if err != nil {
		logr.FromContextOrDiscard(ctx).Error(err, "Reading the addresses of the interfaces")
		return nil, false
	}
	slices.SortFunc(addresses, netip.Addr.Compare)
	if slices.Equal(addresses, a.addresses) {
		return nil, false
	}
	a.addresses = addresses
	return addresses, true
}

// probe looks for what other programs changed: rules, sets, addresses.
func (a *Agent) probe(ctx context.Context, f *family) {
	f.check(ctx)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.LocalAddrs != nil && time.Since(a.addressesAt) >= addressPeriod {
		f.queued()
	}
}

// Dump returns as text what is programmed for a Service and why, for all families, at any time.
func (a *Agent) Dump(n model.ServiceName) string {
	var text strings.Builder
	for _, f := range a.families {
		text.WriteString(f.describe(n))
	}
	return text.String()
}

// Overview returns a summary of what is programmed.
func (a *Agent) Overview() string {
	var text strings.Builder
	for _, f := range a.families {
		text.WriteString(f.overview())
	}
	text.WriteString("Ask for one Service with NAMESPACE/NAME, or for a virtual IP.\n")
	return text.String()
}

// DumpAddress is Dump for the Services that claim an address. It fails when there are none.
func (a *Agent) DumpAddress(addr netip.Addr) (string, error) {
	var text strings.Builder
	for _, f := range a.families {
		for _, n := range f.claimants(addr) {
			text.WriteString(f.describe(n))
		}
	}
	if text.Len() == 0 {
		return "", fmt.Errorf("no Service that this agent serves has the address %s", addr)
	}
	return text.String(), nil
}
