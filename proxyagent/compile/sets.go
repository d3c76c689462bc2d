package compile

import (
	"net/netip"
	"slices"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// selection says which endpoints of a port traffic may use. It is settled by looking at all of them; after that every endpoint is judged
// alone, by inCluster and inLocal.
type selection struct {
	place place
	hints hints
	// cluster and local: a traffic policy of the port asks for that set.
	cluster, local bool
	// clusterEnding and localEnding: nothing is ready there, so that endpoints which terminate but still serve are used (KEP-1669).
	clusterEnding, localEnding bool
}

// choose settles the selection for a port whose frontends and policies are known.
func choose(all endpoints, at place, p *model.ServicePort) selection {
	// Also with ExternalLocal traffic from outside needs the cluster set: pods and the node itself take the short way to it.
	s := selection{place: at, cluster: !p.InternalLocal || p.HasExternal(), local: p.InternalLocal || p.ExternalLocal && p.HasExternal()}
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
	return s.cluster && e.Ready && s.hints.keep(e, s.place)
}

// inLocal reports whether the endpoint is for traffic that stays on the node. Hints have no say in it.
func (s selection) inLocal(e *model.Endpoint) bool {
	if s.localEnding {
		return s.local && s.place.has(e) && ending(e)
	}
	return s.local && s.place.has(e) && e.Ready
}

// hairpin reports whether the endpoint can meet itself through its own Service.
func (s selection) hairpin(e *model.Endpoint) bool {
	return s.place.mayHave(e) && (s.inCluster(e) || s.inLocal(e))
}

// ending reports whether the endpoint terminates and still serves.
func ending(e *model.Endpoint) bool { return e.Serving && e.Terminating }

// couldServe reports whether the endpoint would serve somebody, somewhere. While there is one, traffic that a policy keeps from it is
// dropped; only when there is none it is rejected.
func couldServe(e *model.Endpoint) bool { return e.Ready || ending(e) }

// fill writes the endpoint sets of a port whose frontends and policies are known.
func fill(p *model.ServicePort, all endpoints, at place) {
	s := choose(all, at, p)
	p.Cluster = all.addrs(s.inCluster)
	p.Local = all.addrs(s.inLocal)
	p.Hairpin = all.addrs(s.hairpin)
	if p.Name.Protocol == model.UDP {
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
