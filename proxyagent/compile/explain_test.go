package compile

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// usual are the first lines about a Service whose policies are Cluster; they are left out below.
const usual = `Service default/web, IPv4:
  traffic to ClusterIPs goes to any endpoint
  traffic from outside goes to any endpoint
`

// localOutside are those of one with a node port whose external policy is Local, and its frontends.
const localOutside = `Service default/web, IPv4:
  traffic to ClusterIPs goes to any endpoint
  traffic from outside goes to endpoints on this node
  port http (TCP 80):
    ClusterIP 10.96.0.1:80: served
    node port 30000: served
`

// TestExplain has all that can be said on node-a in zone-a, in IPv4. Histories explain IPv6 too.
func TestExplain(t *testing.T) {
	web := name("web")
	for name, tc := range map[string]struct {
		services    []asked
		allocations string
		set         model.Settings
		endpoints   string
		shape       func(*model.Service)
		want        string
	}{
		"one Service as most are": {
			services: []asked{"web cluster=10.96.0.1"}, endpoints: "1 ready here; 2 ready",
			want: `  port http (TCP 80):
    ClusterIP 10.96.0.1:80: served
    endpoint 10.1.0.1:8080 on node node-a: used for cluster traffic
    endpoint 10.1.0.2:8080 on node node-z: used for cluster traffic
`},
		"a Service that is not there": {
			want: "Service default/web, IPv4: there is none, or it is headless or of type ExternalName\n",
		},
		"a Service without ports": {
			services: []asked{"web cluster=10.96.0.1"}, endpoints: "1 ready here",
			shape: func(s *model.Service) { s.Ports = nil },
			want: `  it has no ports
  endpoint 10.1.0.1:8080 on node node-a: left out: the Service has no port "http" with TCP
`},
		"everything Local, with affinity and source ranges": {
			services:  []asked{"web cluster=10.96.0.1 lb=203.0.113.1 ext=203.0.113.2 http:80/TCP@30000"},
			endpoints: "1 ready here; 2 ready; 3 ready nowhere; 4; 5 ending here",
			shape: func(s *model.Service) {
				s.InternalLocal, s.ExternalLocal, s.AffinitySeconds = true, true, 10800
				s.SourceRanges = []netip.Prefix{netip.PrefixFrom(s.ClusterIPs[0], s.ClusterIPs[0].BitLen())}
			},
			want: `Service default/web, IPv4:
  traffic to ClusterIPs goes to endpoints on this node
  traffic from outside goes to endpoints on this node
  a client keeps its endpoint for 10800 s after its last new connection
  port http (TCP 80):
    ClusterIP 10.96.0.1:80: served
    load balancer IP 203.0.113.1:80: served
    external IP 203.0.113.2:80: served
    node port 30000: served
    endpoint 10.1.0.1:8080 on node node-a: used for cluster and local traffic
    endpoint 10.1.0.2:8080 on node node-z: used for cluster traffic only: on another node
    endpoint 10.1.0.3:8080 on unknown node: used for cluster traffic only: on an unknown node
    endpoint 10.1.0.4:8080 on node node-z: left out: not ready
    endpoint 10.1.0.5:8080 on node node-a: left out: terminating, and ready ones exist
    load balancer IPs are for sources in [10.96.0.1/32], others are dropped
`},
		"nothing here": {
			services: []asked{"web cluster=10.96.0.1 http:80/TCP@30000"}, endpoints: "1 ready",
			shape: func(s *model.Service) { s.InternalLocal, s.ExternalLocal = true, true },
			want: `Service default/web, IPv4:
  traffic to ClusterIPs goes to endpoints on this node
  traffic from outside goes to endpoints on this node
  port http (TCP 80):
    ClusterIP 10.96.0.1:80: served
    node port 30000: served
    endpoint 10.1.0.1:8080 on node node-z: used for cluster traffic only: on another node
    new connections to ClusterIPs are dropped: the internal policy is Local, and no endpoint on this node can serve
    new connections from outside are dropped: the external policy is Local, and no endpoint on this node can serve
    those of the node and its pods go to endpoints elsewhere
`},
		"nothing anywhere": {
			services: []asked{"web cluster=10.96.0.1"}, endpoints: "1; 2 gone here",
			want: `  port http (TCP 80):
    ClusterIP 10.96.0.1:80: served
    endpoint 10.1.0.1:8080 on node node-z: left out: not ready
    endpoint 10.1.0.2:8080 on node node-a: left out: terminating, and not serving any more
    new connections are rejected: there is no endpoint that could serve
`},
		"all terminate": {
			services: []asked{"web cluster=10.96.0.1 http:80/TCP@30000"}, endpoints: "1 ending here; 2 ending",
			shape: func(s *model.Service) { s.ExternalLocal = true },
			want: localOutside + `    endpoint 10.1.0.1:8080 on node node-a: used for cluster and local traffic
    endpoint 10.1.0.2:8080 on node node-z: used for cluster traffic only: on another node
    nothing is ready: endpoints that terminate are used as long as they serve
    nothing is ready on this node: endpoints on it that terminate are used as long as they serve
`},
		"hints for zones": {
			services: []asked{"web cluster=10.96.0.1"}, endpoints: "1 ready zones=a; 2 ready zones=b,c; 3 ending zones=a",
			want: `  port http (TCP 80):
    ClusterIP 10.96.0.1:80: served
    endpoint 10.1.0.1:8080 on node node-z: used for cluster traffic
    endpoint 10.1.0.2:8080 on node node-z: left out: other zone: hints name zone-b, zone-c
    endpoint 10.1.0.3:8080 on node node-z: left out: terminating, and ready ones exist
    every endpoint has zone hints, and some name this zone: traffic to any endpoint keeps to those
`},
		"hints for nodes, and a policy that does not care": {
			services: []asked{"web cluster=10.96.0.1 http:80/TCP@30000"}, endpoints: "1 ready here nodes=b; 2 ready nodes=a",
			shape: func(s *model.Service) { s.ExternalLocal = true },
			want: localOutside + `    endpoint 10.1.0.1:8080 on node node-a: used for local traffic only: for other nodes: hints name node-b
    endpoint 10.1.0.2:8080 on node node-z: used for cluster traffic only: on another node
    every endpoint has node hints, and some name this node: traffic to any endpoint keeps to those
`},
		"addresses that others have": {
			services: []asked{"web day=5 cluster=10.96.0.1 cluster=10.96.0.2 cluster=10.96.0.3 " +
				"lb=203.0.113.1 ext=10.96.0.7 ext=10.96.0.3 http:80/TCP@30000",
				"a cluster=10.96.0.1", "b cluster=10.96.0.2", "c cluster=10.96.0.7 lb=203.0.113.1 http:80/TCP@30000"},
			allocations: "10.96.0.1=a 10.96.0.9=+web", endpoints: "",
			want: `  port http (TCP 80):
    ClusterIP 10.96.0.1:80: not served, its IPAddress names default/a
    ClusterIP 10.96.0.2:80: not served, the Service default/b has it, by better or older rights
    ClusterIP 10.96.0.3:80: served
    additional address 10.96.0.9:80: served
    load balancer IP 203.0.113.1:80: not served, the Service default/c has it, by better or older rights
    external IP 10.96.0.3:80: not served, as it is a ClusterIP or additional address of the Service already
    external IP 10.96.0.7:80: not served, it is a ClusterIP or additional address of another Service; it belongs to default/c
    node port 30000: not served, the older Service default/c has it
    new connections are rejected: there is no endpoint that could serve
`},
		"a Service that is renumbered": {
			services: []asked{"web held cluster=10.96.0.1 cluster=10.96.0.2"}, endpoints: "1 ready here",
			allocations: "10.96.0.1=+*web 10.96.0.3=+*web 10.96.0.4=+web",
			want: usual + `  it is being renumbered: of type ExternalName for the moment, and held as it was before, for a minute at most
  port http (TCP 80):
    ClusterIP 10.96.0.1:80: served
    ClusterIP 10.96.0.2:80: not served, no IPAddress names this Service while it is held
    former address 10.96.0.3:80: served
    additional address 10.96.0.4:80: served
    endpoint 10.1.0.1:8080 on node node-a: used for cluster traffic
`},
		"what no Service gets": {
			set:      model.Settings{Allocations: model.Enforce},
			services: []asked{"web cluster=10.96.0.1 ext=10.96.0.2", "a cluster=10.96.0.2"}, endpoints: "1 ready",
			want: `  port http (TCP 80):
    ClusterIP 10.96.0.1:80: not served, no IPAddress names this Service, and that is enforced
    external IP 10.96.0.2:80: not served, it is a ClusterIP or additional address of another Service; it belongs to no Service
    nothing of it is served in this family
`},
		"not in this family": {
			services: []asked{"web lb=203.0.113.1 ext=203.0.113.2 http:80/TCP@30000"}, endpoints: "1 ready",
			want: `  port http (TCP 80):
    load balancer IP 203.0.113.1: not served, the Service has no ClusterIP of this family
    external IP 203.0.113.2: not served, the Service has no ClusterIP of this family
    node port 30000: not served, the Service has no ClusterIP of this family
    nothing of it is served in this family
`},
		"names that are more than words": {
			services: []asked{"web cluster=10.96.0.1"}, endpoints: "1 ready nodes=a; 2 ready; 3 ready",
			shape: func(s *model.Service) {
				s.Endpoints[1].Hints = &model.Hints{Nodes: []string{"evil\x1b[2J"}}
				s.Endpoints[2].Addr = netip.AddrPortFrom(netip.MustParseAddr("::ffff:10.0.0.1").WithZone("evil\n"), 80)
			},
			want: `  port http (TCP 80):
    ClusterIP 10.96.0.1:80: served
    endpoint 10.1.0.1:8080 on node node-z: used for cluster traffic
    endpoint 10.1.0.2:8080 on node node-z: left out: for other nodes: hints name "evil\x1b[2J"
    endpoint "[::ffff:10.0.0.1%evil\n]:80" on node node-z: left out: an IPv4 address mapped into IPv6
    every endpoint has node hints, and some name this node: traffic to any endpoint keeps to those
`},
		"malformed": {
			services: []asked{"web cluster=10.96.0.1 :80/TCP"}, endpoints: "1 ready",
			shape: func(s *model.Service) {
				mapped := netip.MustParseAddr("::ffff:10.0.0.1")
				s.LoadBalancerIPs = []netip.Addr{{}, mapped}
				s.Endpoints[0].Node, s.Endpoints[0].Port = "evil\nnode \x1b[2J", ""
				s.Endpoints = append(s.Endpoints,
					model.Endpoint{Protocol: model.TCP, Addr: netip.AddrPortFrom(mapped, 80)},
					model.Endpoint{Protocol: model.TCP, Port: "evil\n", Addr: netip.AddrPortFrom(mapped, 80)})
			},
			want: `  port (TCP 80):
    ClusterIP 10.96.0.1:80: served
    load balancer IP invalid IP: not served, no address
    load balancer IP ::ffff:10.0.0.1: not served, an IPv4 address mapped into IPv6
    endpoint 10.1.0.1:8080 on node "evil\nnode \x1b[2J": used for cluster traffic
    endpoint [::ffff:10.0.0.1]:80 on unknown node: left out: an IPv4 address mapped into IPv6
  endpoint [::ffff:10.0.0.1]:80 on unknown node: left out: an IPv4 address mapped into IPv6
`},
	} {
		t.Run(name, func(t *testing.T) {
			st := stateOf()
			for i, a := range tc.services {
				s := a.claimant(model.IPv4)
				if i == 0 {
					s.Endpoints = someEndpoints(model.IPv4, tc.endpoints)
					if tc.shape != nil {
						tc.shape(&s)
					}
				}
				st.Services[s.Name] = s
			}
			st.Allocations = allocationsOf(model.IPv4, tc.allocations)
			st.Node = model.Node{Name: "node-a", Zone: "zone-a"}
			set := tc.set
			set.Family = model.IPv4
			want := tc.want
			if !strings.HasPrefix(want, "Service") {
				want = usual + want
			}
			wantEqual(t, "explanation", strings.Split(want, "\n"), strings.Split(compilerOf(set, st).Explain(web), "\n"))
		})
	}
}

// TestExplainOtherFamily has endpoints of both families: those of the other are only counted.
func TestExplainOtherFamily(t *testing.T) {
	inBoth(t, func(t *testing.T, f model.Family) {
		s := aService(f, "web", 0, "10.96.0.1")
		s.ClusterIPs = append(s.ClusterIPs, addrs(other(f), "10.96.0.1")...)
		s.ExternalIPs, s.LoadBalancerIPs = addrs(other(f), "203.0.113.1"), addrs(other(f), "203.0.113.2")
		s.Endpoints = slices.Concat(someEndpoints(f, "1 ready"), someEndpoints(other(f), "1 ready; 2 ready"))
		text := compilerOf(model.Settings{Family: f}, stateOf(s)).Explain(s.Name)
		if strings.Count(text, "endpoint ") != 1 || strings.Count(text, "served") != 1 || !strings.Contains(text, "  endpoints of the other family: 2\n") {
			t.Errorf("the explanation is\n%s", text)
		}
	})
}

// agrees compares the explanation of a Service with its ports in the Plan.
func agrees(text string, ports map[model.PortName]model.ServicePort, n model.ServiceName) string {
	frontends, cluster, local := 0, 0, 0
	for name, p := range ports {
		if name.Service != n {
			continue
		}
		frontends += len(p.ClusterIPs) + len(p.LoadBalancerIPs) + len(p.ExternalIPs)
		if p.NodePort != 0 {
			frontends++
		}
		cluster, local = cluster+len(p.Cluster), local+len(p.Local)
	}
	both := strings.Count(text, ": used for cluster and local traffic")
	count := func(words string) int { return strings.Count(text, words) }
	got := []int{count(": served\n"), count(": used for cluster traffic") + both, count(": used for local traffic") + both}
	if want := []int{frontends, cluster, local}; !slices.Equal(got, want) || strings.Contains(text, "left out: \n") {
		return fmt.Sprintf("frontends and endpoints are explained %v times, want %v:\n%s", got, want, text)
	}
	return ""
}
