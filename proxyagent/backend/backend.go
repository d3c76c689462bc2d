// Package backend says what writes a Plan to the kernel: the agent has one for each family, and one
// may stand before another. It is not in package model, in which nothing waits.
package backend

import (
	"context"
	"time"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// Backend writes a Plan to the kernel of this node, for one family.
type Backend interface {
	// Sync brings the kernel to the Plan as it is after the Deltas, in their order. After a failure
	// the next Sync finishes the work, even without a Delta. Full: it compared everything. An error is
	// about all ports: what the kernel refuses of one is among Degraded, and Check tries it again.
	Sync(ctx context.Context, deltas ...model.Delta) (full bool, err error)
	// Check repairs what other programs changed and lists it. It is cheap when there is nothing.
	Check(ctx context.Context, now time.Time) ([]string, error)
	// Served lists, once, the fronts of UDP and SCTP that the rules of an earlier agent led to
	// endpoints when the first Sync began. Of each port only the fronts count.
	Served() []model.ServicePort
	// Counts returns for each table how many rules there are and how many the last sync wrote.
	Counts() (total, written map[string]int)
	// Degraded lists tables that the agent cannot work with, and what ports do without, by port.
	Degraded() []model.Degradation
	// Describe says in words how a port is programmed.
	Describe(n model.PortName) []string
}
