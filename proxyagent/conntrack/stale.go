package conntrack

import (
	"net/netip"
	"slices"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// judge says which flows are stale. It is made for one reading of the table.
type judge struct {
	book     *book
	suspects map[netip.AddrPort]bool
	// former are addresses at which node ports were served.
	former []nodeAddrs
	// local are the addresses of the node, as far as somebody needs them.
	local map[netip.Addr]bool
	// abandoned is nil except at the start.
	abandoned func(netip.AddrPort) bool
}

// stale reports whether a flow goes where the rules would not send it.
func (j judge) stale(f Flow) bool {
	suspect := j.suspects[f.Destination] || j.suspects[nodePort(f.Destination.Port())] && j.servedNodePorts(f.Destination.Addr())
	if !suspect && j.abandoned == nil {
		return false
	}
	p, isNodePort, owned := j.book.owner(f.Destination, j.local)
	switch {
	case owned:
		return misled(f, p, isNodePort)
	case suspect:
		return f.translated()
	default:
		return f.translated() && j.abandoned(f.Destination)
	}
}

// misled reports whether a flow to a frontend of p is stale.
func misled(f Flow, p model.ServicePort, isNodePort bool) bool {
	switch {
	case mayStay(p, f.ReplySource):
		return false
	case f.translated():
		return true
	default:
		// At a node port, somebody on the node who has the same port may answer: that is a conversation, not a mistake.
		return hasEndpoints(p) && (!isNodePort || !f.Answered)
	}
}

// servedNodePorts reports whether node ports are or were served at an address.
func (j judge) servedNodePorts(addr netip.Addr) bool {
	served := func(n nodeAddrs) bool { return n.serves(addr, j.local) }
	return served(j.book.nodes) || slices.ContainsFunc(j.former, served)
}

// abandonedBy returns the question whether a frontend that no port of a Plan has belongs to a Service that was deleted, or to a port that a
// Service no longer has. A virtual IP that is allocated but not served by us may be served by another proxy.
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
