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

// flowsPeriod is when stale connections are looked for again after that failed.
const flowsPeriod = 10 * time.Second

// addressPeriod is how often the addresses of interfaces are read again.
const addressPeriod = 10 * time.Second

// Agent is the loop. Make it with [New]; Run may be called once, Dump at any time.
type Agent struct {
	Options
	families []*family
	pace     pace

	addresses   []netip.Addr // of interfaces, as the compilers know them
	addressesAt time.Time
	started     bool                              // the source has been asked once
	checks      map[model.ServiceName]healthCheck // answered once the rules are written
	services    int                               // events not yet programmed, for the metrics
	endpoints   int
}

// New returns an agent that does nothing yet.
func New(o Options) *Agent {
	a := &Agent{Options: o, pace: pace{pause: o.MinSyncPeriod}, checks: map[model.ServiceName]healthCheck{}}
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
	probe := time.NewTicker(a.ProbePeriod)
	defer probe.Stop()
	woken := make(chan struct{}, 1)
	go a.listen(ctx, woken)
	a.round(ctx)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-woken:
			a.queued()
		case <-a.pace.due():
			a.round(ctx)
		case <-probe.C:
			a.probe(ctx)
		}
	}
}

// listen passes on that there are changes. It runs in its own goroutine, so that health learns of pending changes even while the loop
// is blocked in the kernel.
func (a *Agent) listen(ctx context.Context, woken chan<- struct{}) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.Source.Wake():
		}
		for _, f := range a.families {
			a.Health.Queued(f.Settings.Family)
		}
		select {
		case woken <- struct{}{}:
		default: // the loop knows already
		}
	}
}

// queued schedules a round and reports pending work.
func (a *Agent) queued() {
	now := time.Now()
	a.pace.want(now)
	for _, f := range a.families {
		a.Health.Queued(f.Settings.Family)
		a.Metrics.Queued(f.Settings.Family, now)
	}
}

// round takes the changes and programs them, all families at the same time.
func (a *Agent) round(ctx context.Context) {
	changes := a.take(ctx)
	var all sync.WaitGroup
	for _, f := range a.families {
		all.Go(func() { f.program(ctx, changes) })
	}
	all.Wait()
	a.scheduleNext(time.Now())
}

// scheduleNext plans the next round: families that failed are tried again, each after its own backoff.
func (a *Agent) scheduleNext(now time.Time) {
	a.pace.done(now)
	failed := 0
	for _, f := range a.families {
		if f.failed {
			failed++
			a.pace.again(now, f.retryAt)
		} else if f.flowsAll {
			a.pace.again(now, now.Add(flowsPeriod))
		}
	}
	if failed < len(a.families) { // load balancers probe over one family
		for name, check := range a.checks {
			a.HealthChecks.Set(name, check.port, check.local)
		}
		clear(a.checks)
	}
	if failed > 0 {
		return
	}
	a.Metrics.ChangesDone(a.services, a.endpoints)
	a.services, a.endpoints = 0, 0
}

// take gets the changes from the source and passes them to everything that needs no rules.
func (a *Agent) take(ctx context.Context) model.Changes {
	changes := a.Source.Take()
	a.Metrics.Changed(changes.ServiceEvents, changes.EndpointEvents)
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
	for name, service := range changes.Services {
		a.healthCheck(name, service)
	}
	return changes
}

// healthCheck is a health check node port with the number of endpoints that it reports.
type healthCheck struct {
	port  uint16
	local int
}

// healthCheck makes a Service unhealthy for load balancers at once, and healthy only after its rules are written.
func (a *Agent) healthCheck(name model.ServiceName, service *model.Service) {
	var check healthCheck
	if service != nil {
		check.port, check.local, _ = compile.HealthCheck(a.NodeName, *service)
	}
	if check.local > 0 {
		a.checks[name] = check
		return
	}
	delete(a.checks, name)
	a.HealthChecks.Set(name, check.port, 0)
}

// localAddresses reads the addresses of the interfaces, where settings depend on them, and reports whether they changed.
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

// probe looks for changes by others: rules, sets, addresses.
func (a *Agent) probe(ctx context.Context) {
	for _, f := range a.families {
		if f.check(ctx); f.failed {
			a.pace.again(time.Now(), f.retryAt)
		}
	}
	if a.LocalAddrs != nil && time.Since(a.addressesAt) >= addressPeriod {
		a.queued()
	}
}

// Dump returns as text what is programmed for a Service and why, for all families. It may be called at any time.
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

// DumpAddress does what Dump does for the Services that claim an address. It fails when there are none.
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
