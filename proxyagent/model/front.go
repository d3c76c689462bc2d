package model

import "net/netip"

// Front is one address at which a ServicePort is served, and what it does with new connections.
type Front struct {
	// At is a virtual IP with its port or, with the zero address, a node port.
	At netip.AddrPort
	// Outside is true for traffic from outside, Local if its policy keeps it to this node's endpoints.
	Outside, Local bool
	// Exempt is true where that policy is not for clients on this node and its pods: they may use
	// all endpoints of ServicePort.Cluster, and there are some.
	Exempt bool
	// Usable are the endpoints for all other clients, and Fate is what becomes of them.
	Usable []netip.AddrPort
	Fate   Fate
	// Sources may use the front; connections of all other clients are dropped. Empty: all may.
	Sources []netip.Prefix
}

// IsNodePort reports whether the front is a node port.
func (f Front) IsNodePort() bool { return !f.At.Addr().IsValid() }

// Fate is what becomes of a new connection.
type Fate uint8

const (
	// Serve leads it to an endpoint.
	Serve Fate = iota
	// Refuse tells the client that there is no endpoint in the cluster.
	Refuse
	// Drop does not answer, as there are endpoints elsewhere that the policy forbids: a load
	// balancer goes on to another node.
	Drop
)

// Fronts are all of a port: ClusterIPs, ExternalIPs, LoadBalancerIPs, node port.
func (p ServicePort) Fronts() []Front {
	all := make([]Front, 0, len(p.ClusterIPs)+len(p.ExternalIPs)+len(p.LoadBalancerIPs)+1)
	add := func(f Front, port uint16, at ...netip.Addr) {
		for _, a := range at {
			f.At = netip.AddrPortFrom(a, port)
			all = append(all, f)
		}
	}
	outside := p.front(p.ExternalLocal)
	outside.Outside, outside.Exempt = true, p.ExternalLocal && len(p.Cluster) > 0
	add(p.front(p.InternalLocal), p.Port, p.ClusterIPs...)
	add(outside, p.Port, p.ExternalIPs...)
	balancer := outside
	if p.HasEndpoints { // without, all clients are refused
		balancer.Sources = p.SourceRanges
	}
	add(balancer, p.Port, p.LoadBalancerIPs...)
	if p.NodePort != 0 {
		add(outside, p.NodePort, netip.Addr{})
	}
	return all
}

// front has the endpoints on the node alone, or all, and what that means for new connections.
func (p ServicePort) front(local bool) Front {
	f := Front{Local: local, Usable: p.Cluster}
	if local {
		f.Usable = p.Local
	}
	switch {
	case !p.HasEndpoints:
		f.Fate = Refuse
	case len(f.Usable) == 0:
		f.Fate = Drop
	}
	return f
}

// PortAt is a port of which only a front is known.
func PortAt(p Protocol, at netip.AddrPort) ServicePort {
	port := ServicePort{Name: PortName{Protocol: p}, Port: at.Port()}
	if at.Addr().IsValid() {
		port.LoadBalancerIPs = []netip.Addr{at.Addr()}
	} else {
		port.NodePort = at.Port()
	}
	return port
}
