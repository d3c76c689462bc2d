package compile

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// someEndpoints parses endpoints, separated by semicolons, each as words: a number n for the address 10.1.0.n:8080, and what is to say of
// it. The agent runs on node-a; an endpoint without a word about its node is on another one.
//
//	ready      takes traffic, serving     here       on node-a               zones=a,b   hints name those zones
//	ending     terminating, serving       nowhere    its node is not said    nodes=a,b   hints name those nodes, node-a and node-b
//	gone       terminating, not serving   serving    that alone              published   ready alone
func someEndpoints(f model.Family, s string) (out []model.Endpoint) {
	for words := range strings.SplitSeq(s, ";") {
		if strings.TrimSpace(words) != "" {
			out = append(out, anEndpoint(f, strings.Fields(words)))
		}
	}
	return out
}

func anEndpoint(f model.Family, words []string) model.Endpoint {
	e := model.Endpoint{Port: "http", Protocol: model.TCP, Addr: endpointAddr(f, words[0]), Node: "node-z"}
	for _, w := range words[1:] {
		switch key, value, _ := strings.Cut(w, "="); key {
		case "ready":
			e.Ready, e.Serving = true, true
		case "ending":
			e.Serving, e.Terminating = true, true
		case "gone":
			e.Terminating = true
		case "serving":
			e.Serving = true
		case "published":
			e.Ready = true
		case "here":
			e.Node = "node-a"
		case "nowhere":
			e.Node = ""
		case "zones":
			e.Zones = prefixed("zone-", value)
		case "nodes":
			e.Nodes = prefixed("node-", value)
		default:
			panic("what is " + w)
		}
	}
	return e
}

func prefixed(prefix, list string) (out []string) {
	for s := range strings.SplitSeq(list, ",") {
		out = append(out, prefix+s)
	}
	return out
}

func endpointAddr(f model.Family, number string) netip.AddrPort {
	return netip.AddrPortFrom(netip.MustParseAddr(in(f, "10.1.0."+number)), 8080)
}

func endpointAddrs(f model.Family, numbers string) (out []netip.AddrPort) {
	for n := range strings.FieldsSeq(numbers) {
		out = append(out, endpointAddr(f, n))
	}
	return out
}

// TestEndpointSets has what traffic may use, seen from node-a in zone-a. All rules of proxy.md 1.3 about termination, policies and hints
// are here, and every situation that kube-proxy 1.36 tests its own with.
func TestEndpointSets(t *testing.T) {
	for name, tc := range map[string]struct {
		// policy has the words internal and external for those that are Local, and exposed for a Service with a node port.
		policy string
		// zone is the zone of the node, zone-a when empty; none for a node without.
		zone      string
		endpoints string

		cluster, local string
		// hairpin are addresses that may meet themselves.
		hairpin string
		// nobody: no endpoint anywhere could serve.
		nobody bool
	}{
		// Readiness and termination.
		"no endpoints at all":                              {nobody: true},
		"no endpoints at all, with everything Local":       {policy: "internal external exposed", nobody: true},
		"none is ready":                                    {endpoints: "1; 2", nobody: true},
		"one is neither ready nor serving nor terminating": {endpoints: "1 here", nobody: true},
		"those that are ready are used":                    {endpoints: "1; 2 ready", cluster: "2"},
		"all terminate: those that still serve are used": {
			endpoints: "1 ending here; 2 ending; 3 gone", cluster: "1 2", hairpin: "1",
		},
		"one terminates, another is ready":          {endpoints: "1 ending; 2 ready", cluster: "2"},
		"all terminate and none serves any more":    {endpoints: "1 gone; 2 gone here", nobody: true},
		"serving without terminating is not enough": {endpoints: "1 ending; 2 serving", cluster: "1"},
		"serving alone": {endpoints: "1 serving", nobody: true},
		"ready without serving, as publishNotReadyAddresses may have it": {endpoints: "1 published; 2 serving", cluster: "1"},
		"published though it is not ready, while it terminates":          {endpoints: "1 ready ending; 2 ending", cluster: "1"},

		// Policies.
		"an endpoint is local, but no policy asks": {endpoints: "1 ready here; 2 ready", cluster: "1 2", hairpin: "1"},
		"internal Local: only those here": {
			policy: "internal", endpoints: "1 ready here; 2 ready", local: "1", hairpin: "1",
		},
		"internal Local: all are here": {
			policy: "internal", endpoints: "1 ready here; 2 ready here", local: "1 2", hairpin: "1 2",
		},
		"internal Local: all are elsewhere, which is not the same as no": {policy: "internal", endpoints: "1 ready; 2 ready"},
		"internal Local: one elsewhere that terminates is somebody too":  {policy: "internal", endpoints: "1 ending"},
		"internal Local: one elsewhere that is not ready is nobody":      {policy: "internal", endpoints: "1; 2 here", nobody: true},
		"internal Local, exposed: the outside uses all": {
			policy: "internal exposed", endpoints: "1 ready here; 2 ready", cluster: "1 2", local: "1", hairpin: "1",
		},
		"external Local, exposed: the inside uses all": {
			policy: "external exposed", endpoints: "1 ready here; 2 ready", cluster: "1 2", local: "1", hairpin: "1",
		},
		"external Local, not exposed: as if it were not": {
			policy: "external", endpoints: "1 ready; 2 ready here", cluster: "1 2", hairpin: "2",
		},
		"both Local, not exposed: only those here": {
			policy: "internal external", endpoints: "1 ready; 2 ready here", local: "2", hairpin: "2",
		},
		"both Local, exposed: pods and node take the short way to all": {
			policy: "internal external exposed", endpoints: "1 ready here; 2 ready", cluster: "1 2", local: "1", hairpin: "1",
		},
		"both Local, exposed, all elsewhere": {
			policy: "internal external exposed", endpoints: "1 ready; 2 ready", cluster: "1 2",
		},
		"both Local, exposed, all elsewhere and terminating": {
			policy: "internal external exposed", endpoints: "1 ending; 2 ending", cluster: "1 2",
		},

		// Both sets fall back to terminating endpoints by themselves.
		"external Local: ready elsewhere, terminating here": {
			policy: "external exposed", endpoints: "1 ready; 2 here; 3 ending here; 4 ending", cluster: "1", local: "3", hairpin: "3",
		},
		"external Local: ready here, terminating here": {
			policy: "external exposed", endpoints: "1 ready here; 2 ending here", cluster: "1", local: "1", hairpin: "1",
		},
		"external Local: all terminate, one here": {
			policy: "external exposed", endpoints: "1 ending here; 2 ending", cluster: "1 2", local: "1", hairpin: "1",
		},
		"internal Local: terminating here, ready elsewhere": {
			policy: "internal", endpoints: "1 ending here; 2 ready", local: "1", hairpin: "1",
		},
		"internal Local: here none that serves, elsewhere terminating": {policy: "internal", endpoints: "1 gone here; 2 ending"},

		// Zones.
		"zone hints for all: those for this zone": {
			endpoints: "1 ready zones=a; 2 ready zones=b; 3 ready zones=c; 4 ready zones=a", cluster: "1 4",
		},
		"zone hints name several zones": {
			endpoints: "1 ready zones=c,b,a; 2 ready zones=b,a; 3 ready zones=b,d; 4 ready zones=a", cluster: "1 2 4",
		},
		"zone hints, but the node has no zone": {zone: "none", endpoints: "1 ready zones=a; 2 ready zones=b", cluster: "1 2"},
		"zone hints, none for this zone": {
			zone: "zone-b", endpoints: "1 ready zones=a; 2 ready zones=c", cluster: "1 2",
		},
		"one ready endpoint has no zone hint": {
			endpoints: "1 ready zones=a; 2 ready zones=b; 3 ready; 4 ready zones=a", cluster: "1 2 3 4",
		},
		"one that is not ready has no zone hint": {endpoints: "1 ready zones=a; 2 ready zones=b; 3", cluster: "1"},
		"an unready endpoint of this zone is not used": {
			endpoints: "1 ready zones=a; 2 ready zones=b; 3 ready zones=c; 4 zones=a", cluster: "1",
		},
		"all endpoints of this zone are unready: no filter": {
			endpoints: "1 zones=a; 2 ready zones=b; 3 ready zones=c; 4 zones=a", cluster: "2 3",
		},
		"all terminate: zones have no say":                       {endpoints: "1 ending zones=a; 2 ending zones=b", cluster: "1 2"},
		"a terminating endpoint of this zone, a ready elsewhere": {endpoints: "1 ending zones=a; 2 ready zones=b", cluster: "2"},
		"internal Local: zones have no say": {
			policy: "internal", endpoints: "1 ready here zones=a; 2 ready here zones=b", local: "1 2", hairpin: "1 2",
		},
		"internal Local, exposed: zones for the outside only": {
			policy: "internal exposed", endpoints: "1 ready here zones=a; 2 ready here zones=b; 3 ready zones=c; 4 ready zones=a", cluster: "1 4",
			local: "1 2", hairpin: "1 2",
		},
		"external Local: zones for the inside only": {
			policy: "external exposed", endpoints: "1 ready here zones=a; 2 ready here zones=b; 3 ready zones=c; 4 ready zones=a", cluster: "1 4",
			local: "1 2", hairpin: "1 2",
		},
		"zone and node disagree, the sets overlap": {
			policy: "external exposed", endpoints: "1 ready here zones=a; 2 ready here zones=b; 3 ready zones=a; 4 ready zones=b", cluster: "1 3",
			local: "1 2", hairpin: "1 2",
		},

		// Nodes.
		"node hints for all: those for this node": {
			endpoints: "1 ready here zones=a nodes=a; 2 ready zones=b nodes=b; 3 ready zones=a nodes=c", cluster: "1", hairpin: "1",
		},
		"a node hint may be for an endpoint elsewhere": {endpoints: "1 ready nodes=b; 2 ready nodes=b,a", cluster: "2"},
		"one ready endpoint has no hints: no filter at all": {
			endpoints: "1 ready zones=a nodes=a; 2 ready; 3 ready zones=a nodes=b", cluster: "1 2 3",
		},
		"one ready endpoint has no node hint: zones decide": {
			endpoints: "1 ready zones=b nodes=a; 2 ready zones=a; 3 ready zones=a nodes=b", cluster: "2 3",
		},
		"node hints, none for this node: zones decide": {
			endpoints: "1 ready zones=a nodes=b; 2 ready zones=b nodes=c; 3 ready zones=a nodes=d", cluster: "1 3",
		},
		"node hints, none for this node or zone: no filter": {
			endpoints: "1 ready zones=b nodes=b; 2 ready zones=c nodes=c", cluster: "1 2",
		},
		"node hints without zone hints, none for this node":       {endpoints: "1 ready nodes=b; 2 ready nodes=c", cluster: "1 2"},
		"the endpoint of this node is not ready":                  {endpoints: "1 nodes=a; 2 ready nodes=b", cluster: "2"},
		"a node hint for this node, and zones say something else": {endpoints: "1 ready zones=b nodes=a; 2 ready zones=a nodes=b", cluster: "1"},
		"external Local: the outside does not care for node hints": {
			policy: "external exposed", endpoints: "1 ready here nodes=b; 2 ready nodes=a", cluster: "2", local: "1", hairpin: "1",
		},

		// Endpoints that do not say where they are.
		"an unknown node may be this one, for hairpin": {endpoints: "1 ready nowhere; 2 ready", cluster: "1 2", hairpin: "1"},
		"an unknown node is not this one, for policies": {
			policy: "internal", endpoints: "1 ready nowhere; 2 ready here", local: "2", hairpin: "2",
		},
		"what is in no set cannot meet itself": {endpoints: "1 ending here; 2 nowhere; 3 ready", cluster: "3"},
	} {
		t.Run(name, func(t *testing.T) {
			inBoth(t, func(t *testing.T, f model.Family) {
				s := aService(f, "web", 0, "10.96.0.1")
				s.InternalLocal, s.ExternalLocal = strings.Contains(tc.policy, "internal"), strings.Contains(tc.policy, "external")
				if strings.Contains(tc.policy, "exposed") {
					s.Ports[0].NodePort = 30000
				}
				s.Endpoints = someEndpoints(f, tc.endpoints)
				st := stateOf(s)
				st.Node = model.Node{Name: "node-a", Zone: map[string]string{"": "zone-a", "none": ""}[tc.zone]}
				if strings.HasPrefix(tc.zone, "zone-") {
					st.Node.Zone = tc.zone
				}
				got := onlyPort(t, planOf(model.Settings{Family: f}, st))
				wantEqual(t, "Cluster", endpointAddrs(f, tc.cluster), got.Cluster)
				wantEqual(t, "Local", endpointAddrs(f, tc.local), got.Local)
				wantEqual(t, "Hairpin", endpointAddrs(f, tc.hairpin), got.Hairpin)
				wantEqual(t, "HasEndpoints", !tc.nobody, got.HasEndpoints)
			})
		})
	}
}

func onlyPort(t *testing.T, p model.Plan) model.ServicePort {
	t.Helper()
	if len(p.Ports) != 1 {
		t.Fatalf("the Plan has %d ports, want one: %v", len(p.Ports), p.Ports)
	}
	for _, x := range p.Ports {
		return x
	}
	return model.ServicePort{}
}

// TestServing has endpoints that flows may stay with, whatever new ones use; only flows of UDP are asked about.
func TestServing(t *testing.T) {
	inBoth(t, func(t *testing.T, f model.Family) {
		s := aService(f, "web", 0, "10.96.0.1")
		s.Ports = nil
		for _, p := range model.Protocols {
			s.Ports = append(s.Ports, model.Port{Name: "http", Protocol: p, Port: 80})
			for _, e := range someEndpoints(f, "4 ready zones=b; 3 ready zones=a; 2 ending; 1 gone; 5 here") {
				e.Protocol = p
				s.Endpoints = append(s.Endpoints, e)
			}
		}
		st := stateOf(s)
		st.Node.Zone = "zone-a"
		got := map[model.Protocol][]netip.AddrPort{}
		for n, p := range planOf(model.Settings{Family: f}, st).Ports {
			got[n.Protocol] = p.Serving
		}
		wantEqual(t, "Serving", map[model.Protocol][]netip.AddrPort{
			model.TCP: nil, model.UDP: endpointAddrs(f, "2 3 4"), model.SCTP: nil}, got)
	})
}

// TestUnknownNode has an agent that does not know its node: nothing is local, and a hint or endpoint without a name is not for it.
func TestUnknownNode(t *testing.T) {
	s := aService(model.IPv4, "web", 0, "10.96.0.1")
	s.InternalLocal = true
	s.Ports[0].NodePort = 30000
	s.Endpoints = someEndpoints(model.IPv4, "1 ready here nodes=a zones=a; 2 ready nowhere nodes=b zones=b")
	s.Endpoints[1].Nodes, s.Endpoints[1].Zones = []string{""}, []string{""}
	got := onlyPort(t, planOf(model.Settings{Family: model.IPv4}, stateOf(s)))
	wantEqual(t, "Cluster", endpointAddrs(model.IPv4, "1 2"), got.Cluster)
	wantEqual(t, "Local", endpointAddrs(model.IPv4, ""), got.Local)
	wantEqual(t, "Hairpin", endpointAddrs(model.IPv4, "2"), got.Hairpin)
}

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

// TestJoin has which endpoints are those of a port: the same name and protocol, whatever the numbers are.
func TestJoin(t *testing.T) {
	inBoth(t, func(t *testing.T, f model.Family) {
		s := aService(f, "web", 0, "10.96.0.1")
		s.Ports = []model.Port{
			{Name: "dns", Protocol: model.UDP, Port: 53},
			{Name: "dns", Protocol: model.TCP, Port: 53},
			{Name: "", Protocol: model.SCTP, Port: 53},
			{Name: "metrics", Protocol: model.TCP, Port: 9153},
		}
		at := func(port string, p model.Protocol, number uint16) model.Endpoint {
			return model.Endpoint{Port: port, Protocol: p, Ready: true, Addr: netip.AddrPortFrom(addrs(f, "10.1.0.1")[0], number)}
		}
		s.Endpoints = []model.Endpoint{
			at("dns", model.TCP, 5353), at("dns", model.UDP, 5354), at("", model.SCTP, 5355), at("dns", model.SCTP, 1), at("", model.TCP, 2),
			at("dn", model.TCP, 3),
			at("Metrics", model.TCP, 9153), at("dns", model.TCP, 5356),
		}
		got := map[string][]uint16{}
		for n, p := range planOf(model.Settings{Family: f}, stateOf(s)).Ports {
			got[n.String()] = nil
			for _, a := range p.Cluster {
				got[n.String()] = append(got[n.String()], a.Port())
			}
		}
		wantEqual(t, "endpoint ports by Service port", map[string][]uint16{
			"default/web:dns/TCP": {5353, 5356}, "default/web:dns/UDP": {5354}, "default/web/SCTP": {5355}, "default/web:metrics/TCP": nil,
		}, got)
	})
}

// TestDuplicates has one address that comes twice, from two slices, in both orders.
func TestDuplicates(t *testing.T) {
	for name, tc := range map[string]struct {
		policy, one, other string
		cluster, local     string
		hairpin            string
	}{
		"one terminates, the other is ready":            {one: "1 ending", other: "1 ready", cluster: "1"},
		"one terminates, the other is not ready":        {one: "1 ending", other: "1"},
		"one terminates and is published, other unsure": {one: "1 ready ending", other: "1"},
		"one is ready, the other not":                   {one: "1", other: "1 ready", cluster: "1"},
		"one is published, the other serves":            {one: "1 serving", other: "1 published", cluster: "1"},
		"one serves while it terminates, the other not": {one: "1 gone", other: "1 ending", cluster: "1"},
		"both alike, one says where it is": {
			policy: "internal", one: "1 ready nowhere", other: "1 ready here", local: "1", hairpin: "1",
		},
		"both alike, on two nodes":   {policy: "internal", one: "1 ready", other: "1 ready here", local: "1", hairpin: "1"},
		"the ready one is elsewhere": {policy: "internal", one: "1 ready", other: "1 here"},
		"with and without hints":     {one: "1 ready", other: "1 ready zones=b", cluster: "1"},
	} {
		t.Run(name, func(t *testing.T) {
			inBoth(t, func(t *testing.T, f model.Family) {
				for _, list := range []string{tc.one + ";" + tc.other, tc.other + ";" + tc.one} {
					s := aService(f, "web", 0, "10.96.0.1")
					s.InternalLocal = tc.policy == "internal"
					s.Endpoints = someEndpoints(f, list)
					st := stateOf(s)
					st.Node.Name = "node-a"
					got := onlyPort(t, planOf(model.Settings{Family: f}, st))
					wantEqual(t, list+": Cluster", endpointAddrs(f, tc.cluster), got.Cluster)
					wantEqual(t, list+": Local", endpointAddrs(f, tc.local), got.Local)
					wantEqual(t, list+": Hairpin", endpointAddrs(f, tc.hairpin), got.Hairpin)
				}
			})
		})
	}
}

// TestUnusableEndpoints has addresses that nothing can be sent to: they are left out, with the reason, and the others stay.
func TestUnusableEndpoints(t *testing.T) {
	for addr, want := range map[string]map[model.Family]string{
		"10.1.0.1:80":              {model.IPv4: "", model.IPv6: "of the other family"},
		"[2001:db8::1]:80":         {model.IPv4: "of the other family", model.IPv6: ""},
		"[::ffff:10.1.0.1]:80":     {model.IPv4: "an IPv4 address mapped into IPv6", model.IPv6: "an IPv4 address mapped into IPv6"},
		"[2001:db8::1%eth0]:80":    {model.IPv4: "of the other family", model.IPv6: "an address with a zone"},
		"0.0.0.0:80":               {model.IPv4: "the unspecified address"},
		"[::]:80":                  {model.IPv6: "the unspecified address"},
		"127.0.0.1:80":             {model.IPv4: "a loopback address"},
		"127.255.0.1:80":           {model.IPv4: "a loopback address"},
		"[::1]:80":                 {model.IPv6: "a loopback address"},
		"224.0.0.251:80":           {model.IPv4: "a multicast address"},
		"[ff02::fb]:80":            {model.IPv6: "a multicast address"},
		"169.254.169.254:80":       {model.IPv4: "a link-local address"},
		"[fe80::1]:80":             {model.IPv6: "a link-local address"},
		"10.1.0.1:0":               {model.IPv4: "port 0"},
		"[2001:db8::1]:0":          {model.IPv6: "port 0"},
		"0.0.0.0:0":                {model.IPv4: "the unspecified address"},
		"255.255.255.255:80":       {model.IPv4: "the broadcast address"},
		"[2001:db8::ffff:ffff]:80": {model.IPv6: ""},
	} {
		for f, why := range want {
			e := netip.MustParseAddrPort(addr)
			if got := whyNoEndpoint(e, f); got != why {
				t.Errorf("%s in %s: %q, want %q", addr, f, got, why)
			}
			s := aService(f, "web", 0, "10.96.0.1")
			s.Endpoints = append(someEndpoints(f, "9 ready"), model.Endpoint{Port: "http", Protocol: model.TCP, Addr: e, Ready: true})
			got := onlyPort(t, planOf(model.Settings{Family: f}, stateOf(s)))
			if used := len(got.Cluster) == 2; used != (why == "") {
				t.Errorf("%s in %s: endpoints are %v, but the reason is %q", addr, f, got.Cluster, why)
			}
		}
	}
	if got := whyNoEndpoint(netip.AddrPort{}, model.IPv4); got != "no address" {
		t.Errorf("the zero AddrPort: %q", got)
	}
}
