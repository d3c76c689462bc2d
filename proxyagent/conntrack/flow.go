package conntrack

import (
	"context"
	"net/netip"
	"slices"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// Flow is one flow as connection tracking sees it. Flows may be compared. Its zero value is none.
type Flow struct {
	Protocol model.Protocol
	// Source and Destination are what the client sent. ReplySource is where an answer comes from
	// before it is translated back: the endpoint, or Destination when the rules did not translate it.
	Source, Destination, ReplySource netip.AddrPort
	// Answered is true when there was a packet in each direction; over SCTP, when the client
	// accepted what came.
	Answered bool
	// ID tells the flow from an earlier or later one with the same addresses.
	ID uint32
	// Zone and SourceZone are tracking zones: of both directions, and of the client's; mostly zero.
	Zone, SourceZone uint16
}

// translated reports whether the rules gave the flow another destination.
func (f Flow) translated() bool { return f.ReplySource != f.Destination }

func (f Flow) front() front { return front{f.Protocol, f.Destination} }

// Query says which flows are wanted. The kernel leaves out the rest: to send a flow costs it many
// times what it costs to pass it over.
type Query struct {
	Family   model.Family
	Protocol model.Protocol
	// Addr and Port are the destination. The zero values stand for any.
	Addr netip.Addr
	Port uint16
	// Unanswered leaves out flows that were answered.
	Unanswered bool
}

// Table is connection tracking as a Reconciler needs it. It may be used by several goroutines.
type Table interface {
	// Flows returns the flows of a Query that are wanted. The kernel walks its whole table; an
	// error means that nothing can be said.
	Flows(ctx context.Context, q Query, wanted func(Flow) bool) ([]Flow, error)
	// Delete deletes exactly this flow, and reports false when it is gone already.
	Delete(ctx context.Context, f Flow) (bool, error)
	// LocalAddrs returns the addresses of the node's interfaces.
	LocalAddrs() ([]netip.Addr, error)
}

// staleCheck decides which flows are stale, for one reading of the table.
type staleCheck struct {
	index *portIndex
	// suspects are the fronts in question, with their ports when the reading began, nil for none.
	suspects map[front]*served
	// former are addresses at which node ports were served.
	former []nodeAddrs
	// local are the addresses of the node, empty where no decision needs them.
	local map[netip.Addr]bool
	// abandoned is nil except at the start.
	abandoned func(front) bool
}

// possible reports whether a flow may be stale. It needs nothing that changes while the table is
// read, and says yes in case of doubt.
func (c staleCheck) possible(f Flow) bool {
	for _, at := range []front{f.front(), nodePort(f.Protocol, f.Destination.Port())} {
		if port, suspect := c.suspects[at]; suspect && (port == nil || len(c.former) > 0 || port.isStale(f, false)) {
			return true
		}
	}
	return c.isAbandoned(f)
}

// stale reports whether a flow goes to a destination that the rules would not choose.
func (c staleCheck) stale(f Flow) bool {
	_, suspect := c.suspects[f.front()]
	if _, atNode := c.suspects[nodePort(f.Protocol, f.Destination.Port())]; atNode && c.servedNodePorts(f.Destination.Addr()) {
		suspect = true
	}
	switch port, isNodePort := c.index.owner(f.front(), c.local); {
	case !suspect && c.abandoned == nil:
		return false
	case port != nil:
		return port.isStale(f, isNodePort)
	case suspect:
		return f.translated()
	default:
		return c.isAbandoned(f)
	}
}

func (c staleCheck) isAbandoned(f Flow) bool {
	return c.abandoned != nil && f.translated() && c.abandoned(f.front())
}

// isStale reports whether a flow to a front of the port is stale.
func (s *served) isStale(f Flow, isNodePort bool) bool {
	switch {
	case s.allows(f.ReplySource):
		return false
	case f.translated():
		return true
	default:
		// A process of the node may listen on the number of a node port: a flow that it answered is
		// not stale.
		return s.hasEndpoints() && (!isNodePort || !f.Answered)
	}
}

// servedNodePorts reports whether node ports are or were served at an address.
func (c staleCheck) servedNodePorts(addr netip.Addr) bool {
	served := func(n nodeAddrs) bool { return n.serves(addr, c.local) }
	return served(c.index.nodes) || slices.ContainsFunc(c.former, served)
}

// abandonedBy returns a function that reports whether a front which is not in a Plan belonged to a
// deleted Service, or to a port that a Service no longer has. A virtual IP that is allocated but
// not in the Plan may be served by another proxy.
func abandonedBy(p model.Plan) func(front) bool {
	ours := make(map[netip.Addr]bool)
	for _, port := range p.Ports {
		for _, f := range frontsOf(port) {
			ours[f.at.Addr()] = true
		}
	}
	ranges, allocated := p.Globals.Ranges, p.Allocated // the ports are large, and not needed any more
	return func(dst front) bool {
		addr := dst.at.Addr()
		_, is := allocated[addr]
		return model.Inside(ranges, addr) && (!is || ours[addr])
	}
}
