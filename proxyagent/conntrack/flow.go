package conntrack

import (
	"context"
	"net/netip"
	"slices"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// Flow is one UDP flow as connection tracking sees it. Flows may be compared. Its zero value is none.
type Flow struct {
	// Source and Destination are what the client sent. ReplySource is where an answer comes from before it is translated back: the endpoint, or
	// Destination when the rules did not translate it.
	Source, Destination, ReplySource netip.AddrPort
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
	// LocalAddrs returns the addresses of the node's interfaces.
	LocalAddrs() ([]netip.Addr, error)
}

// staleCheck decides which flows are stale, for one reading of the table.
type staleCheck struct {
	index    *portIndex
	suspects map[netip.AddrPort]bool
	// former are addresses at which node ports were served.
	former []nodeAddrs
	// local are the addresses of the node, empty where no decision needs them.
	local map[netip.Addr]bool
	// abandoned is nil except at the start.
	abandoned func(netip.AddrPort) bool
}

// stale reports whether a flow goes to a destination that the rules would not choose.
func (c staleCheck) stale(f Flow) bool {
	suspect := c.suspects[f.Destination] || c.suspects[nodePort(f.Destination.Port())] && c.servedNodePorts(f.Destination.Addr())
	if !suspect && c.abandoned == nil {
		return false
	}
	p, isNodePort, owned := c.index.owner(f.Destination, c.local)
	switch {
	case owned:
		return isStale(f, p, isNodePort)
	case suspect:
		return f.translated()
	default:
		return f.translated() && c.abandoned(f.Destination)
	}
}

// isStale reports whether a flow to a frontend of p is stale.
func isStale(f Flow, p model.ServicePort, isNodePort bool) bool {
	switch {
	case allows(p, f.ReplySource):
		return false
	case f.translated():
		return true
	default:
		// A process of the node may listen on the number of a node port: a flow that it answered is not stale.
		return hasEndpoints(p) && (!isNodePort || !f.Answered)
	}
}

// servedNodePorts reports whether node ports are or were served at an address.
func (c staleCheck) servedNodePorts(addr netip.Addr) bool {
	served := func(n nodeAddrs) bool { return n.serves(addr, c.local) }
	return served(c.index.nodes) || slices.ContainsFunc(c.former, served)
}

// abandonedBy returns a function that reports whether a frontend which is not in a Plan belonged to a deleted Service, or to a port that a
// Service no longer has. A virtual IP that is allocated but not in the Plan may be served by another proxy.
func abandonedBy(p model.Plan) func(netip.AddrPort) bool {
	ours := make(map[netip.Addr]bool)
	for _, port := range p.Ports {
		for _, f := range frontends(port) {
			ours[f.Addr()] = true
		}
	}
	return func(dst netip.AddrPort) bool {
		inside := slices.ContainsFunc(p.Globals.Ranges, func(r netip.Prefix) bool { return r.Contains(dst.Addr()) })
		_, allocated := p.Allocated[dst.Addr()]
		return inside && (!allocated || ours[dst.Addr()])
	}
}
