package compile

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// TestHealthCheck counts what a load balancer may send to this node, node-a.
func TestHealthCheck(t *testing.T) {
	for name, tc := range map[string]struct {
		v4, v6 string
		want   int
	}{
		"no endpoints":                           {},
		"ready here":                             {v4: "1 ready here; 2 ready here", want: 2},
		"both families count":                    {v4: "1 ready here", v6: "1 ready here", want: 2},
		"elsewhere, or who knows where":          {v4: "1 ready; 2 ready nowhere"},
		"not ready":                              {v4: "1 here"},
		"terminating, though it serves":          {v4: "1 ending here"},
		"terminating, though published as ready": {v4: "1 ready ending here"},
		"one address of two slices":              {v4: "1 ready here; 1 ready here", want: 1},
		"one address, its other pod terminates":  {v4: "1 ending here; 1 ready here", want: 1},
		"one address, ready elsewhere":           {v4: "1 ready; 1 here"},
	} {
		t.Run(name, func(t *testing.T) {
			s := aService(model.IPv4, "web", 0, "10.96.0.1")
			s.HealthCheckNodePort = 32000
			s.Endpoints = slices.Concat(someEndpoints(model.IPv4, tc.v4), someEndpoints(model.IPv6, tc.v6))
			port, local, ok := HealthCheck("node-a", s)
			wantEqual(t, "port, endpoints, ok", []any{uint16(32000), tc.want, true}, []any{port, local, ok})
		})
	}
}

// TestHealthCheckPorts has several ports of one pod, which count once, and addresses of no use, which do not count.
func TestHealthCheckPorts(t *testing.T) {
	s := aService(model.IPv4, "web", 0, "10.96.0.1")
	s.HealthCheckNodePort = 32000
	s.Endpoints = someEndpoints(model.IPv4, "1 ready here; 1 ready here; 2 ready here")
	s.Endpoints[1].Port = "https"
	s.Endpoints[2].Addr = netip.AddrPortFrom(s.Endpoints[2].Addr.Addr(), 0)
	if _, local, _ := HealthCheck("node-a", s); local != 1 {
		t.Errorf("%d local endpoints, want 1", local)
	}
	if _, local, _ := HealthCheck("", s); local != 0 {
		t.Errorf("%d local endpoints of a node without a name, want 0", local)
	}
	s.HealthCheckNodePort = 0
	if port, local, ok := HealthCheck("node-a", s); ok || port != 0 || local != 0 {
		t.Errorf("a Service without a health check port has port %d, %d local endpoints, %t", port, local, ok)
	}
}
