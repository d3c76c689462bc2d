package proxyagent

import (
	"context"
	"net/netip"
	"time"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/backend"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// Source delivers the changes in the cluster.
type Source interface {
	// Ready is closed once everything has been listed.
	Ready() <-chan struct{}
	// Wake gets a value when there are changes.
	Wake() <-chan struct{}
	// Take returns the changes since the last Take; the first time, the whole state.
	Take() model.Changes
}

// Flows removes stale conntrack entries, for one family.
type Flows interface {
	// Start takes in a Plan, all of whose ports have to be looked at, and those that were served
	// before; Reconcile a Delta. Their rules are in the kernel. Neither touches it.
	Start(p model.Plan, before []model.ServicePort, now time.Time)
	Reconcile(g model.Globals, d model.Delta, now time.Time)
	// Next is when the next search is due, zero when there is nothing to look for.
	Next() time.Time
	// Search returns what reads the kernel for a search, nil when none is due. That may take long and
	// run beside all other methods; what it returns deletes what is stale then, some in each call.
	Search(now time.Time) (read func(context.Context) (remove func(context.Context) (deleted int, more bool, err error)))
}

// Connections counts connections in the kernel, of one family.
type Connections interface {
	// Count sets the value of each address to the number of connections that clients have to it.
	Count(ctx context.Context, of map[netip.Addr]int) error
}

// Health receives the progress of the loop. All methods may be called concurrently.
type Health interface {
	Queued(f model.Family)
	Updated(f model.Family)
	SetNodeLeaving(leaving bool)
	// Counted tells the connections to each former address at that time, or why they were not counted.
	Counted(at time.Time, connections map[netip.Addr]int, err error)
}

// HealthChecks serves the health check node ports of Services. Port zero takes one away.
type HealthChecks interface {
	Set(n model.ServiceName, port uint16, localEndpoints int)
}

// Events reports Services that do not get what they ask for on this node.
type Events interface {
	Disputed(d model.Dispute)
	Degraded(f model.Family, d model.Degradation)
}

// Metrics receives the numbers of each round.
type Metrics interface {
	Changed(services, endpoints int)
	ChangesDone(services, endpoints int)
	Queued(f model.Family, at time.Time)
	SyncDone(f model.Family, full bool, took time.Duration, end time.Time, err error)
	RestoreFailed(f model.Family)
	Programmed(f model.Family, triggers []time.Time, now time.Time)
	Rules(f model.Family, total, written map[string]int)
	NoLocalEndpoints(f model.Family, internal, external int)
	ConntrackDone(f model.Family, took time.Duration, deleted int)
	Disputed(f model.Family, disputes []model.Dispute)
	Degraded(f model.Family, degradations []model.Degradation)
	Repaired(f model.Family, what string)
	Former(f model.Family, addresses, connections int)
}

// Family is what the agent needs for one IP family.
type Family struct {
	Settings    model.Settings
	Backend     backend.Backend
	Flows       Flows
	Connections Connections
	// Optional is true for a family that a node need not be able to serve as long as the cluster
	// has neither a Service nor a ServiceCIDR of it.
	Optional bool
}

// Options make an [Agent]. All fields are needed but LocalAddrs.
type Options struct {
	NodeName     string
	Source       Source
	Families     []Family
	Health       Health
	HealthChecks HealthChecks
	Events       Events
	Metrics      Metrics
	// LocalAddrs lists the addresses of the node's interfaces. Nil when no setting depends on them.
	LocalAddrs func() ([]netip.Addr, error)

	// MinSyncPeriod is the pause after a sync during which changes are collected.
	MinSyncPeriod time.Duration
	// ProbePeriod is how often drift is looked for.
	ProbePeriod time.Duration
}
