package conntrack

import (
	"context"
	"net/netip"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// Flow is one UDP flow as connection tracking sees it. Flows may be compared. Its zero value is none.
type Flow struct {
	// Source and Destination are what the client sent, ReplySource and ReplyDestination what an answer looks like before it is translated
	// back: ReplySource is the endpoint, or Destination when the rules did not translate it.
	Source, Destination           netip.AddrPort
	ReplySource, ReplyDestination netip.AddrPort
	// Answered is true when there was a packet in each direction.
	Answered bool
	// ID tells the flow from an earlier or later one with the same addresses.
	ID uint32
	// Zone and SourceZone are the tracking zones of both directions, and of the client's only. Both are zero nearly always.
	Zone, SourceZone uint16
}

// translated reports whether the rules gave the flow another destination.
func (f Flow) translated() bool { return f.ReplySource != f.Destination }

// Table is connection tracking as a Reconciler needs it.
type Table interface {
	// Flows returns the UDP flows of a family that are wanted. It reads the whole table; an error means that nothing can be said.
	Flows(ctx context.Context, f model.Family, wanted func(Flow) bool) ([]Flow, error)
	// Delete deletes exactly this flow, and reports false when it is gone already.
	Delete(ctx context.Context, f Flow) (bool, error)
	// LocalAddrs returns the addresses of the node's interfaces in a family.
	LocalAddrs(ctx context.Context, f model.Family) ([]netip.Addr, error)
}
