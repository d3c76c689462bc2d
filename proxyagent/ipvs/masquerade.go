//go:build linux

package ipvs

import (
	"net/netip"
	"slices"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// masquerading is what Rules have to know before IPVS serves what comes: ports as they were, with
// the endpoints that may meet themselves from now on, and with the mark of traffic that may go to
// endpoints elsewhere. A first packet that came before would reach its endpoint with the client's
// address, and so would all that its connection sends again: the kernel decides about a connection
// once. Other ports are as good without: where nothing is served yet rules refuse or drop it, and a
// virtual IP that comes is not the node's yet.
func masquerading(was map[model.PortName]*model.ServicePort, deltas []model.Delta) model.Delta {
	first := model.Delta{Ports: map[model.PortName]*model.ServicePort{}}
	for _, d := range deltas {
		for name, port := range d.Ports {
			early := first.Ports[name]
			if early == nil {
				early = was[name]
			}
			if early = before(early, port); early != nil {
				first.Ports[name] = early
			}
		}
	}
	return first
}

// before is a port as Rules have to know it on its way from one state to another; nil if they need
// not. Neither has to be there.
func before(was, is *model.ServicePort) *model.ServicePort {
	switch {
	case is == nil, was == nil && is.NodePort == 0:
		return nil
	case was == nil: // its node port is served at addresses that the node has
		early := is.Unserved()
		early.Hairpin = is.Hairpin
		return balanced(*early)
	}
	early := *was
	early.Hairpin = union(was.Hairpin, is.Hairpin)
	early.ExternalLocal = was.ExternalLocal && (is.ExternalLocal || len(was.Local) == 0)
	if len(early.Hairpin) == len(was.Hairpin) && early.ExternalLocal == was.ExternalLocal {
		return nil
	}
	return balanced(early)
}

// union is what is in one or the other, sorted.
func union(a, b []netip.AddrPort) []netip.AddrPort {
	all := slices.Concat(a, b)
	slices.SortFunc(all, netip.AddrPort.Compare)
	return slices.Compact(all)
}
