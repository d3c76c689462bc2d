//go:build linux

package ipvs

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// front is where a virtual server listens.
type front struct {
	protocol model.Protocol
	at       netip.AddrPort
}

// mark is the front that marks the port of this one as ours, at all addresses of the node.
func (f front) mark() front {
	return front{f.protocol, netip.AddrPortFrom(model.FamilyOf(f.at.Addr()).Unspecified(), f.at.Port())}
}

func (f front) isMark() bool { return f.at.Addr().IsUnspecified() }

// String is protocol, address and port.
func (f front) String() string { return f.protocol.String() + " " + f.at.String() }

func (f front) compare(o front) int {
	return cmp.Or(cmp.Compare(f.protocol, o.protocol), f.at.Compare(o.at))
}

// balancing is how a virtual server chooses. A client stays with its endpoint for seconds, if any.
type balancing struct {
	scheduler model.Scheduler
	seconds   int
}

// server is a virtual server: as it should be, or as the kernel has it.
type server struct {
	balancing
	weights map[netip.AddrPort]int
}

func (s *server) has(e netip.AddrPort) bool {
	_, there := s.weights[e]
	return there
}

type action uint8

const (
	addServer action = iota
	setServer
	removeServer
	addEndpoint
	setWeight
	removeEndpoint
)

type step struct {
	action
	front
	balancing // of servers that are added or set
	endpoint  netip.AddrPort
	weight    int
}

// drains reports whether endpoints that go keep connections for a while. UDP has no end of its own,
// and dh asks only a destination's own endpoint: with the weight 0 that would refuse all clients.
func drains(f front, b balancing) bool {
	return f.protocol == model.TCP && b.scheduler != model.DestinationHashing
}

// decide returns what to do about one virtual server: build brings what is missing, clear takes
// away what is not wanted. want is nil when no port has that front. A port without endpoints keeps
// its virtual server as long as an endpoint drains.
func decide(f front, want, have *server) (build, clear []step) {
	switch {
	case want == nil && have == nil, have == nil && len(want.weights) == 0 && !f.isMark():
		return nil, nil
	case want == nil:
		return nil, []step{{action: removeServer, front: f}}
	case have == nil:
		build, have = append(build, step{action: addServer, front: f, balancing: want.balancing}), &server{}
	case have.balancing != want.balancing && len(want.weights) > 0:
		build = append(build, step{action: setServer, front: f, balancing: want.balancing})
	}
	for _, e := range endpoints(want.weights) {
		s := step{action: setWeight, front: f, endpoint: e, weight: want.weights[e]}
		if !have.has(e) {
			s.action = addEndpoint
		}
		if s.action == addEndpoint || have.weights[e] != s.weight {
			build = append(build, s)
		}
	}
	stay := len(want.weights)
	for _, e := range endpoints(have.weights) {
		s := step{action: removeEndpoint, front: f, endpoint: e}
		if want.has(e) {
			continue
		}
		if drains(f, want.balancing) {
			stay++
			s.action = setWeight
		}
		if s.action == removeEndpoint || have.weights[e] != 0 {
			clear = append(clear, s)
		}
	}
	if stay == 0 && !f.isMark() {
		clear = []step{{action: removeServer, front: f}}
	}
	return build, clear
}

func endpoints(weights map[netip.AddrPort]int) []netip.AddrPort {
	return slices.SortedFunc(maps.Keys(weights), netip.AddrPort.Compare)
}

// weightsOf are the weights of some endpoints of a port.
func weightsOf(p *model.ServicePort, some []netip.AddrPort) map[netip.AddrPort]int {
	weights := make(map[netip.AddrPort]int, len(some))
	for i, weight := range p.Weights.Among(some) {
		weights[some[i]] = weight
	}
	return weights
}

// differences name what other programs have changed of virtual servers.
func differences(build, clear []step) (found []string) {
	for _, s := range slices.Concat(build, clear) {
		what := "virtual server " + s.front.String()
		if s.endpoint.IsValid() {
			what = fmt.Sprintf("destination %s of %s", s.endpoint, s.front)
		}
		found = append(found, what)
	}
	return slices.Compact(found)
}

// String is what ipvsadm prints of it.
func (b balancing) String() string {
	text := []string{string(b.scheduler)}
	if b.seconds > 0 {
		text = append(text, fmt.Sprintf("persistent for %d s", b.seconds))
	}
	return strings.Join(text, ", ")
}
