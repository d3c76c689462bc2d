//go:build linux

package tables

import (
	"net/netip"
	"slices"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// inPlace is a port whose endpoints stay at the indexes that they had before, so that few elements
// change: those that come take the places of those that go, and of what is left the last ones fill
// the holes. An agent that starts knows no order from before: of a port that grew and shrank it may
// write all elements once. Not so where the order counts: a hash of the client has to lead to the
// same endpoint on all nodes.
func inPlace(before, p *model.ServicePort) *model.ServicePort {
	if before == nil || len(p.Weights) > 0 || pickerOf(p.Scheduler) == bySource {
		return p
	}
	cluster, moved := keepOrder(before.Cluster, p.Cluster)
	local, movedLocal := keepOrder(before.Local, p.Local)
	if !moved && !movedLocal {
		return p
	}
	same := *p
	same.Cluster, same.Local = cluster, local
	return &same
}

// keepOrder returns now in the order of before, and whether that differs from now's.
func keepOrder(before, now []netip.AddrPort) (ordered []netip.AddrPort, moved bool) {
	toPlace, ordered := endpointsOf(now), make([]netip.AddrPort, len(now))
	for i, e := range before[:min(len(before), len(now))] {
		if toPlace[e] > 0 {
			ordered[i] = e
			toPlace[e]--
		}
	}
	free := 0
	for _, e := range now {
		if toPlace[e] == 0 {
			continue
		}
		for ordered[free].IsValid() {
			free++
		}
		ordered[free] = e
		toPlace[e]--
	}
	return ordered, !slices.Equal(ordered, now)
}

// endpointsOf counts endpoints.
func endpointsOf(all []netip.AddrPort) map[netip.AddrPort]int {
	n := make(map[netip.AddrPort]int, len(all))
	for _, e := range all {
		n[e]++
	}
	return n
}
