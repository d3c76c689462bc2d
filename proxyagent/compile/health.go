package compile

import (
	"net/netip"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// HealthCheck returns the port at which a load balancer asks whether this node has endpoints of the Service, and how many: the distinct
// addresses, of both families, of ready endpoints on the node. Those that terminate are not counted, so that load balancers turn away
// while they still serve. It reports false for a Service without such a port. An empty node name has no endpoints.
func HealthCheck(node string, s model.Service) (port uint16, localReady int, ok bool) {
	if s.HealthCheckNodePort == 0 {
		return 0, 0, false
	}
	at, seen := place{node: node}, map[netip.Addr]struct{}{}
	for i := range s.Endpoints {
		e := &s.Endpoints[i]
		if at.has(e) && e.Ready && !e.Terminating && whyNoEndpoint(e.Addr, model.FamilyOf(e.Addr.Addr())) == "" {
			seen[e.Addr.Addr()] = struct{}{}
		}
	}
	return s.HealthCheckNodePort, len(seen), true
}
