package conntrack

import (
	"net/netip"
	"slices"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// book knows the UDP ports of a Plan by where traffic to them goes.
type book struct {
	ports map[model.PortName]model.ServicePort
	// owners are the ports by frontend: an address and port or, with the zero address, a node port.
	owners map[netip.AddrPort]model.PortName
	nodes  nodeAddrs
}

// nodeAddrs are the addresses at which node ports are served. The zero value is none.
type nodeAddrs struct {
	// any local address, on loopback too if localhost is true; otherwise those listed, sorted.
	any, localhost bool
	listed         []netip.Addr
}

func newBook() *book {
	return &book{ports: make(map[model.PortName]model.ServicePort), owners: make(map[netip.AddrPort]model.PortName)}
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

// mayStay reports whether flows of a port may stay with an endpoint: those that new flows go to, and those that still serve.
func mayStay(p model.ServicePort, endpoint netip.AddrPort) bool {
	return has(p.Cluster, endpoint) || has(p.Local, endpoint) || has(p.Serving, endpoint)
}

// hasEndpoints reports whether new flows of a port go anywhere.
func hasEndpoints(p model.ServicePort) bool { return len(p.Cluster) > 0 || len(p.Local) > 0 }

// hasFlows reports whether a port may have flows to endpoints.
func hasFlows(p model.ServicePort) bool { return hasEndpoints(p) || len(p.Serving) > 0 }

func has(sorted []netip.AddrPort, endpoint netip.AddrPort) bool {
	_, found := slices.BinarySearchFunc(sorted, endpoint, netip.AddrPort.Compare)
	return found
}

// change is what became of one port. The zero ServicePort has no frontends.
type change struct {
	name          model.PortName
	before, after model.ServicePort
}

// apply brings the book up to date and returns the frontends that may have stale flows now.
func (b *book) apply(d model.Delta) []netip.AddrPort {
	changes := b.changes(d)
	suspects := b.suspects(changes)
	for _, c := range changes { // All, before one is added: an address may have moved.
		b.remove(c.name)
	}
	for _, c := range changes {
		b.add(c.name, c.after)
	}
	return suspects
}

// changes returns what became of the UDP ports of d.
func (b *book) changes(d model.Delta) []change {
	var all []change
	for name, now := range d.Ports {
		if name.Protocol != model.UDP {
			continue
		}
		c := change{name: name, before: d.Before[name]}
		if known, ok := b.ports[name]; ok {
			c.before = known
		}
		if now != nil {
			c.after = *now
		}
		all = append(all, c)
	}
	return all
}

// suspects returns the frontends that may have stale flows because of changes. The book is as it was before them.
func (b *book) suspects(changes []change) []netip.AddrPort {
	var all []netip.AddrPort
	for _, c := range changes {
		old, current := frontends(c.before), frontends(c.after)
		lost := lostEndpoint(c.before, c.after) || !hasEndpoints(c.before) && hasEndpoints(c.after)
		for _, f := range old {
			stays := slices.Contains(current, f)
			if stays && lost || !stays && (hasFlows(c.before) || b.hides(f)) {
				all = append(all, f)
			}
		}
		for _, f := range current {
			if !slices.Contains(old, f) && (hasEndpoints(c.after) || b.hides(f)) {
				all = append(all, f)
			}
		}
	}
	return all
}

// hides reports whether a virtual IP has the number of a node port. If it is an address of the node, flows to it change hands with it.
func (b *book) hides(f netip.AddrPort) bool {
	_, isNodePort := b.owners[nodePort(f.Port())]
	return isNodePort
}

// lostEndpoint reports whether flows of before may be with an endpoint where those of after may not stay.
func lostEndpoint(before, after model.ServicePort) bool {
	lost := func(endpoint netip.AddrPort) bool { return !mayStay(after, endpoint) }
	return slices.ContainsFunc(before.Cluster, lost) || slices.ContainsFunc(before.Local, lost) || slices.ContainsFunc(before.Serving, lost)
}

// add enters a port, unless it has no frontends.
func (b *book) add(name model.PortName, p model.ServicePort) {
	all := frontends(p)
	if len(all) == 0 {
		return
	}
	b.ports[name] = p
	for _, f := range all {
		b.owners[f] = name
	}
}

func (b *book) remove(name model.PortName) {
	for _, f := range frontends(b.ports[name]) {
		delete(b.owners, f)
	}
	delete(b.ports, name)
}

// moveNodePorts sets other addresses of node ports, and returns the frontends that may have stale flows now.
func (b *book) moveNodePorts(n nodeAddrs) []netip.AddrPort {
	b.nodes = n
	var suspects []netip.AddrPort
	for f, name := range b.owners {
		if !f.Addr().IsValid() && hasFlows(b.ports[name]) {
			suspects = append(suspects, f)
		}
	}
	return suspects
}

// owner returns the port that has the destination of a flow, and whether it has it as a node port.
func (b *book) owner(dst netip.AddrPort, local map[netip.Addr]bool) (p model.ServicePort, isNodePort, ok bool) {
	if name, ok := b.owners[dst]; ok { // The rules ask for virtual IPs first.
		return b.ports[name], false, true
	}
	if name, ok := b.owners[nodePort(dst.Port())]; ok && b.nodes.serves(dst.Addr(), local) {
		return b.ports[name], true, true
	}
	return model.ServicePort{}, false, false
}
