package compile

import (
	"net/netip"
	"slices"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// selection is which endpoints of a port traffic may use. choose makes it from all of them;
// inCluster and inLocal then decide about one endpoint at a time.
type selection struct {
	location location
	hints    hints
	// cluster and local: a traffic policy of the port asks for that set.
	cluster, local bool
	// clusterEnding and localEnding: none is ready, so ending ones that serve are used (KEP-1669).
	clusterEnding, localEnding bool
}

// choose makes the selection for a port whose frontends and policies are known.
func choose(all endpoints, at location, p *model.ServicePort) selection {
	// ExternalLocal needs the cluster set, too: pods of this node and the node itself use it.
	s := selection{location: at, cluster: !p.InternalLocal || p.HasExternal(), local: p.InternalLocal || p.ExternalLocal && p.HasExternal()}
	s.hints = hintsOf(all, at)
	s.clusterEnding = !slices.ContainsFunc(all, func(e *model.Endpoint) bool { return e.Ready })
	s.localEnding = !slices.ContainsFunc(all, func(e *model.Endpoint) bool { return e.Ready && at.has(e) })
	return s
}

// inCluster reports whether the endpoint is for traffic that may go anywhere.
func (s selection) inCluster(e *model.Endpoint) bool {
	if s.clusterEnding {
		return s.cluster && ending(e)
	}
	return s.cluster && e.Ready && s.hints.keep(e, s.location)
}

// inLocal reports whether the endpoint is for traffic that stays on the node. Hints do not count.
func (s selection) inLocal(e *model.Endpoint) bool {
	if s.localEnding {
		return s.local && s.location.has(e) && ending(e)
	}
	return s.local && s.location.has(e) && e.Ready
}

// hairpin reports whether the endpoint can meet itself through its own Service.
func (s selection) hairpin(e *model.Endpoint) bool {
	return s.location.mayHave(e) && (s.inCluster(e) || s.inLocal(e))
}

// ending reports whether the endpoint terminates and still serves.
func ending(e *model.Endpoint) bool { return e.Serving && e.Terminating }

// couldServe reports whether the endpoint can serve new connections on any node. Traffic that a
// policy keeps away from such an endpoint is dropped; where there is none, it is rejected.
func couldServe(e *model.Endpoint) bool { return e.Ready || ending(e) }

// fill writes the endpoint sets of a port whose frontends and policies are known.
func fill(p *model.ServicePort, all endpoints, at location) {
	s := choose(all, at, p)
	p.Cluster = all.addrs(s.inCluster)
	p.Local = all.addrs(s.inLocal)
	p.Hairpin = all.addrs(s.hairpin)
	if p.Name.Protocol != model.TCP {
		p.Serving = all.addrs(func(e *model.Endpoint) bool { return e.Serving })
	}
	p.HasEndpoints = slices.ContainsFunc(all, couldServe)
}

// addrs returns the addresses of those endpoints that may, in their order; nil for none.
func (e endpoints) addrs(may func(*model.Endpoint) bool) []netip.AddrPort {
	n := 0
	for _, x := range e {
		if may(x) {
			n++
		}
	}
	if n == 0 {
		return nil
	}
	out := make([]netip.AddrPort, 0, n)
	for _, x := range e {
		if may(x) {
			out = append(out, x.Addr)
		}
	}
	return out
}

// balance writes scheduler and weights of a port whose endpoint sets are known.
func balance(p *model.ServicePort, all endpoints, b *model.Balancing) {
	if b == nil {
		return
	}
	p.Scheduler = b.Scheduler
	if b.Weighs() {
		p.Weights = weightsOf(all, func(a netip.AddrPort) bool { return model.Has(p.Cluster, a) || model.Has(p.Local, a) })
	}
}

// weightsOf returns the weights of the endpoints that may be used, divided by what divides all of
// them, because rules spell weights out. It is nil where all weigh the same.
func weightsOf(all endpoints, used func(netip.AddrPort) bool) model.Weights {
	all = slices.DeleteFunc(slices.Clone(all), func(e *model.Endpoint) bool { return !used(e.Addr) })
	divisor := uint8(0)
	for _, e := range all {
		divisor = greatestCommonDivisor(divisor, e.Weight)
	}
	if divisor == 0 {
		return nil
	}
	var out model.Weights
	for _, e := range all {
		if e.Weight == divisor {
			continue
		}
		if out == nil {
			out = model.Weights{}
		}
		out[e.Addr] = e.Weight / divisor
	}
	return out
}

// greatestCommonDivisor is that of two numbers, of which zero can be divided by all.
func greatestCommonDivisor(a, b uint8) uint8 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// location is the node that the agent runs on, and its zone. Both are empty when not known.
type location struct{ node, zone string }

// has reports whether the endpoint is on this node. One without a node name is not.
func (l location) has(e *model.Endpoint) bool { return l.node != "" && e.Node == l.node }

// mayHave reports whether the endpoint could be on this node: hand-written slices often name none.
func (l location) mayHave(e *model.Endpoint) bool { return e.Node == "" || l.has(e) }

// hints say to which ready endpoints traffic is limited.
type hints uint8

const (
	// noHints: all of them.
	noHints hints = iota
	// sameNode: those with a hint for this node.
	sameNode
	// sameZone: those with a hint for this node's zone.
	sameZone
)

// hintsOf evaluates the hints of a port's endpoints for a location. Hints count only if every ready
// endpoint has them, because their writer may not be done, and only if one of them is for this
// location, so that they never exclude all endpoints.
func hintsOf(all endpoints, at location) hints {
	everyNode, everyZone, ready, thisNode, thisZone := true, true, false, false, false
	for _, e := range all {
		if !e.Ready {
			continue
		}
		ready = true
		everyNode = everyNode && len(e.Hints.ForNodes()) > 0
		everyZone = everyZone && len(e.Hints.ForZones()) > 0
		thisNode = thisNode || sameNode.keep(e, at)
		thisZone = thisZone || sameZone.keep(e, at)
	}
	switch {
	case ready && everyNode && thisNode:
		return sameNode
	case ready && everyZone && thisZone:
		return sameZone
	default:
		return noHints
	}
}

// keep reports whether the hints let traffic from this location use the endpoint.
func (h hints) keep(e *model.Endpoint, at location) bool {
	switch h {
	case sameNode:
		return at.node != "" && slices.Contains(e.Hints.ForNodes(), at.node)
	case sameZone:
		return at.zone != "" && slices.Contains(e.Hints.ForZones(), at.zone)
	default:
		return true
	}
}

// HealthCheck returns the port at which a load balancer asks whether this node has endpoints of the
// Service, and how many: distinct addresses, of both families, of ready ones on the node.
// Terminating ones are not ready, so load balancers turn away while they still serve, except with
// publishNotReadyAddresses, as in kube-proxy. It reports false without such a port. An empty node
// name has none.
func HealthCheck(node string, s model.Service) (port uint16, localReady int, ok bool) {
	if s.HealthCheckNodePort == 0 {
		return 0, 0, false
	}
	at, seen := location{node: node}, map[netip.Addr]struct{}{}
	for i := range s.Endpoints {
		e := &s.Endpoints[i]
		if at.has(e) && e.Ready && whyNoEndpoint(e.Addr, model.FamilyOf(e.Addr.Addr())) == "" {
			seen[e.Addr.Addr()] = struct{}{}
		}
	}
	return s.HealthCheckNodePort, len(seen), true
}
