package conntrack

import (
	"net/netip"
	"slices"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// portIndex has the UDP ports of a Plan by their frontends.
type portIndex struct {
	ports map[model.PortName]model.ServicePort
	// owners are the ports by frontend: an address and port or, with the zero address, a node port.
	owners map[netip.AddrPort]model.PortName
	nodes  nodeAddrs
}

// nodeAddrs are the local addresses at which node ports are served. The zero value is none.
type nodeAddrs struct {
	// any local address, on loopback too if localhost is true; otherwise those listed, sorted.
	any, localhost bool
	listed         []netip.Addr
}

func newPortIndex() *portIndex {
	return &portIndex{ports: make(map[model.PortName]model.ServicePort), owners: make(map[netip.AddrPort]model.PortName)}
}

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
		_, listed := slices.BinarySearchFunc(n.listed, addr, netip.Addr.Compare)
		return listed
	case addr.IsLoopback():
		return n.localhost
	default:
		return local[addr]
	}
}

// nodePort is the frontend of a node port, wherever it is served.
func nodePort(number uint16) netip.AddrPort { return netip.AddrPortFrom(netip.Addr{}, number) }

// frontends returns all frontends of a port.
func frontends(p model.ServicePort) []netip.AddrPort {
	var all []netip.AddrPort
	for _, vips := range [][]netip.Addr{p.ClusterIPs, p.ExternalIPs, p.LoadBalancerIPs} {
		for _, vip := range vips {
			all = append(all, netip.AddrPortFrom(vip, p.Port))
		}
	}
	if p.NodePort != 0 {
		all = append(all, nodePort(p.NodePort))
	}
	return all
}

// allows reports whether a flow of a port may stay with an endpoint: one that new flows go to, or one that still serves.
func allows(p model.ServicePort, endpoint netip.AddrPort) bool {
	return has(p.Cluster, endpoint) || has(p.Local, endpoint) || has(p.Serving, endpoint)
}

// hasEndpoints reports whether there is an endpoint for new flows.
func hasEndpoints(p model.ServicePort) bool { return len(p.Cluster) > 0 || len(p.Local) > 0 }

// hasFlows reports whether a port may have flows to endpoints.
func hasFlows(p model.ServicePort) bool { return hasEndpoints(p) || len(p.Serving) > 0 }

func has(sorted []netip.AddrPort, endpoint netip.AddrPort) bool {
	_, found := slices.BinarySearchFunc(sorted, endpoint, netip.AddrPort.Compare)
	return found
}

// apply brings the index up to date and returns the frontends that may have stale flows now.
func (x *portIndex) apply(d model.Delta) []netip.AddrPort {
	var suspects []netip.AddrPort
	now := map[model.PortName]model.ServicePort{}
	for name, port := range d.Ports {
		if port != nil && name.Protocol == model.UDP {
			now[name] = *port
		}
		suspects = append(suspects, x.suspects(x.ports[name], now[name])...)
	}
	for name := range d.Ports { // all are removed before any is added: an address may have moved from one to another
		x.remove(name)
	}
	for name, port := range now {
		x.add(name, port)
	}
	return suspects
}

// suspects returns the frontends that may have stale flows because a port changed. The index is as it was before. The zero ServicePort, which
// has no frontends, stands for none.
func (x *portIndex) suspects(before, after model.ServicePort) []netip.AddrPort {
	var all []netip.AddrPort
	old, current := frontends(before), frontends(after)
	lost := lostEndpoint(before, after) || !hasEndpoints(before) && hasEndpoints(after)
	for _, f := range old {
		stays := slices.Contains(current, f)
		if stays && lost || !stays && (hasFlows(before) || x.overlapsNodePort(f)) {
			all = append(all, f)
		}
	}
	for _, f := range current {
		if !slices.Contains(old, f) && (hasEndpoints(after) || x.overlapsNodePort(f)) {
			all = append(all, f)
		}
	}
	return all
}

// overlapsNodePort reports whether a frontend has the port number of a node port. At a local address the node port is served where there is no
// such frontend.
func (x *portIndex) overlapsNodePort(f netip.AddrPort) bool {
	_, isNodePort := x.owners[nodePort(f.Port())]
	return isNodePort
}

// lostEndpoint reports whether flows of before may be with an endpoint where those of after may not stay.
func lostEndpoint(before, after model.ServicePort) bool {
	lost := func(endpoint netip.AddrPort) bool { return !allows(after, endpoint) }
	return slices.ContainsFunc(before.Cluster, lost) || slices.ContainsFunc(before.Local, lost) || slices.ContainsFunc(before.Serving, lost)
}

// add adds a port, unless it has no frontends.
func (x *portIndex) add(name model.PortName, p model.ServicePort) {
	all := frontends(p)
	if len(all) == 0 {
		return
	}
	x.ports[name] = p
	for _, f := range all {
		x.owners[f] = name
	}
}

func (x *portIndex) remove(name model.PortName) {
	for _, f := range frontends(x.ports[name]) {
		delete(x.owners, f)
	}
	delete(x.ports, name)
}

// setNodeAddrs changes the addresses of node ports, and returns the frontends that may have stale flows now.
func (x *portIndex) setNodeAddrs(n nodeAddrs) []netip.AddrPort {
	x.nodes = n
	var suspects []netip.AddrPort
	for f, name := range x.owners {
		if !f.Addr().IsValid() && hasFlows(x.ports[name]) {
			suspects = append(suspects, f)
		}
	}
	return suspects
}

// owner returns the port that has the destination of a flow, and whether it has it as a node port.
func (x *portIndex) owner(dst netip.AddrPort, local map[netip.Addr]bool) (p model.ServicePort, isNodePort, ok bool) {
	if name, ok := x.owners[dst]; ok { // The rules ask for virtual IPs first.
		return x.ports[name], false, true
	}
	if name, ok := x.owners[nodePort(dst.Port())]; ok && x.nodes.serves(dst.Addr(), local) {
		return x.ports[name], true, true
	}
	return model.ServicePort{}, false, false
}
