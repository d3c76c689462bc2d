package conntrack

import (
	"cmp"
	"net/netip"
	"slices"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// front is where a port is served: an address and port or, with the zero address, a node port.
type front struct {
	protocol model.Protocol
	at       netip.AddrPort
}

// nodePort is the front of a node port, wherever it is served.
func nodePort(p model.Protocol, number uint16) front {
	return front{p, netip.AddrPortFrom(netip.Addr{}, number)}
}

func (f front) isNodePort() bool { return !f.at.Addr().IsValid() }

// served are the endpoints of a port, each list sorted: those that new flows go to, and those where
// flows may stay.
type served struct{ cluster, local, serving []netip.AddrPort }

func servedBy(p model.ServicePort) *served { return &served{p.Cluster, p.Local, p.Serving} }

// portIndex has the ports of a Plan by their fronts.
type portIndex struct {
	owners map[front]*served // front -> its port
	nodes  nodeAddrs
}

// nodeAddrs are the local addresses at which node ports are served. The zero value is none.
type nodeAddrs struct {
	// any local address, on loopback too if localhost is true; otherwise those listed, sorted.
	any, localhost bool
	listed         []netip.Addr
}

func newPortIndex() *portIndex { return &portIndex{owners: make(map[front]*served)} }

func nodeAddrsOf(g model.Globals) nodeAddrs {
	localhost := g.LocalhostNodePorts && g.Family == model.IPv4 // Never on ::1, which cannot be routed.
	return nodeAddrs{any: g.NodePortAny, localhost: localhost, listed: g.NodePortAddrs}
}

func (n nodeAddrs) equal(o nodeAddrs) bool {
	return n.any == o.any && n.localhost == o.localhost && slices.Equal(n.listed, o.listed)
}

// serves reports whether node ports are served at an address.
func (n nodeAddrs) serves(addr netip.Addr, local map[netip.Addr]bool) bool {
	switch {
	case !n.any:
		return model.Has(n.listed, addr)
	case addr.IsLoopback():
		return n.localhost
	default:
		return local[addr]
	}
}

// frontsOf returns all fronts of a port.
func frontsOf(p model.ServicePort) (all []front) {
	for _, f := range p.Fronts() {
		all = append(all, front{p.Name.Protocol, f.At})
	}
	return all
}

// allows reports whether a flow may stay with an endpoint: one for new flows, or one that serves.
func (s *served) allows(endpoint netip.AddrPort) bool {
	return model.Has(s.cluster, endpoint) || model.Has(s.local, endpoint) || model.Has(s.serving, endpoint)
}

// hasEndpoints reports whether there is an endpoint for new flows.
func (s *served) hasEndpoints() bool { return len(s.cluster) > 0 || len(s.local) > 0 }

// hasFlows reports whether there may be flows to endpoints.
func (s *served) hasFlows() bool { return s.hasEndpoints() || len(s.serving) > 0 }

// loses reports whether there may be flows to an endpoint where those of after may not stay.
func (s *served) loses(after *served) bool {
	lost := func(endpoint netip.AddrPort) bool { return !after.allows(endpoint) }
	return slices.ContainsFunc(s.cluster, lost) || slices.ContainsFunc(s.local, lost) || slices.ContainsFunc(s.serving, lost)
}

// apply changes the index by a Delta, and returns the fronts that may have stale flows now.
func (x *portIndex) apply(d model.Delta) (suspects []front) {
	now := func(name model.PortName) model.ServicePort { return *cmp.Or(d.Ports[name], &model.ServicePort{}) }
	for name := range d.Ports {
		suspects = append(suspects, x.suspects(d.Before[name], now(name))...)
	}
	for name := range d.Ports { // all are removed before any is added: an address may have moved from one to another
		for _, f := range frontsOf(d.Before[name]) {
			delete(x.owners, f)
		}
	}
	for name := range d.Ports {
		x.add(now(name))
	}
	return suspects
}

// suspects returns the fronts that may have stale flows because a port changed. The index is as it
// was before. The zero ServicePort, which has no fronts, stands for none.
func (x *portIndex) suspects(before, after model.ServicePort) []front {
	var all []front
	old, current, was, is := frontsOf(before), frontsOf(after), servedBy(before), servedBy(after)
	lost := was.loses(is) || !was.hasEndpoints() && is.hasEndpoints()
	for _, f := range old {
		stays := slices.Contains(current, f)
		if stays && lost || !stays && (was.hasFlows() || x.overlapsNodePort(f)) {
			all = append(all, f)
		}
	}
	for _, f := range current {
		if !slices.Contains(old, f) && (is.hasEndpoints() || x.overlapsNodePort(f)) {
			all = append(all, f)
		}
	}
	return all
}

// overlapsNodePort reports whether a front has the port number of a node port. At a local address
// the node port is served where there is no such front.
func (x *portIndex) overlapsNodePort(f front) bool {
	_, isNodePort := x.owners[nodePort(f.protocol, f.at.Port())]
	return isNodePort
}

func (x *portIndex) add(p model.ServicePort) {
	port := servedBy(p)
	for _, f := range frontsOf(p) {
		x.owners[f] = port
	}
}

// setNodeAddrs changes the addresses of node ports, and returns fronts that may have stale flows.
func (x *portIndex) setNodeAddrs(n nodeAddrs) (suspects []front) {
	x.nodes = n
	for f, port := range x.owners {
		if f.isNodePort() && port.hasFlows() {
			suspects = append(suspects, f)
		}
	}
	return suspects
}

// owner returns the port that has a flow's destination, or nil, and whether as a node port.
func (x *portIndex) owner(dst front, local map[netip.Addr]bool) (port *served, isNodePort bool) {
	if port := x.owners[dst]; port != nil { // The rules ask for virtual IPs first.
		return port, false
	}
	if port := x.owners[nodePort(dst.protocol, dst.at.Port())]; port != nil && x.nodes.serves(dst.at.Addr(), local) {
		return port, true
	}
	return nil, false
}
