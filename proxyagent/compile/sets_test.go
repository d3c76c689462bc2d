package compile

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// someEndpoints parses endpoints, separated by semicolons, each as words: a number n for the
// address 10.1.0.n:8080, and what is to say of it. The agent runs on node-a; an endpoint without a
// word about its node is on another one.
//
//	ready    takes traffic, serving    here     on node-a            zones=a,b  hints of those zones
//	ending   terminating, serving      nowhere  its node is unknown  nodes=a,b  hints of node-a, -b
//	gone     terminating, not serving  serving  that alone           published  ready alone
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
			e.Hints = &model.Hints{Zones: prefixed("zone-", value), Nodes: e.Hints.ForNodes()}
		case "nodes":
			e.Hints = &model.Hints{Zones: e.Hints.ForZones(), Nodes: prefixed("node-", value)}
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

// TestEndpointSets has what traffic may use, seen from node-a in zone-a: all rules of proxy.md 1.3
// about termination, policies and hints, and every situation in kube-proxy 1.37's own tests.
func TestEndpointSets(t *testing.T) {
	for name, tc := range map[string]struct {
		// policy has the words internal and external for those that are Local, exposed for a Service with
		// a node port, and the zone of the node if not zone-a, or none.
		policy, endpoints string
		// cluster is the word none where no endpoint anywhere could serve.
		cluster, local string
	}{
		// Readiness and termination.
		"no endpoints at all, with everything Local":     {"internal external exposed", "", "none", ""},
		"all terminate: those that still serve are used": {"", "1 ending here; 2 ending; 3 gone", "1 2", ""},
		"all terminate and none serves any more":         {"", "1 gone; 2 gone here", "none", ""},
		"serving without terminating is not enough":      {"", "1 ending; 2 serving", "1", ""},
		"serving alone": {"", "1 serving", "none", ""},
		"ready without serving, as publishNotReadyAddresses may have it": {"", "1 published; 2 serving", "1", ""},
		"published though it is not ready, while it terminates":          {"", "1 ready ending; 2 ending", "1", ""},

		// Policies.
		"an endpoint is local, but no policy asks":                       {"", "1 ready here; 2 ready", "1 2", ""},
		"internal Local: only those here":                                {"internal", "1 ready here; 2 ready", "", "1"},
		"internal Local: all are elsewhere, which is not the same as no": {"internal", "1 ready; 2 ready", "", ""},
		"internal Local: one elsewhere that terminates counts too":       {"internal", "1 ending", "", ""},
		"internal Local: one elsewhere that is not ready is none":        {"internal", "1; 2 here", "none", ""},
		"internal Local, exposed: the outside uses all":                  {"internal exposed", "1 ready here; 2 ready", "1 2", "1"},
		"external Local, exposed: the inside uses all":                   {"external exposed", "1 ready here; 2 ready", "1 2", "1"},
		"external Local, not exposed: as if it were not":                 {"external", "1 ready; 2 ready here", "1 2", ""},
		"both Local, not exposed: only those here":                       {"internal external", "1 ready; 2 ready here", "", "2"},
		"both Local, exposed: pods and node take the short way to all":   {"internal external exposed", "1 ready here; 2 ready", "1 2", "1"},
		"both Local, exposed, all elsewhere":                             {"internal external exposed", "1 ready; 2 ready", "1 2", ""},
		"both Local, exposed, all elsewhere and terminating":             {"internal external exposed", "1 ending; 2 ending", "1 2", ""},

		// Both sets fall back to terminating endpoints by themselves.
		"external Local: ready elsewhere, terminating here":            {"external exposed", "1 ready; 2 here; 3 ending here; 4 ending", "1", "3"},
		"external Local: ready here, terminating here":                 {"external exposed", "1 ready here; 2 ending here", "1", "1"},
		"external Local: all terminate, one here":                      {"external exposed", "1 ending here; 2 ending", "1 2", "1"},
		"internal Local: terminating here, ready elsewhere":            {"internal", "1 ending here; 2 ready", "", "1"},
		"internal Local: here none that serves, elsewhere terminating": {"internal", "1 gone here; 2 ending", "", ""},

		// Zones.
		"zone hints for all: those for this zone":                {"", "1 ready zones=a; 2 ready zones=b; 3 ready zones=c; 4 ready zones=a", "1 4", ""},
		"zone hints name several zones":                          {"", "1 ready zones=c,b,a; 2 ready zones=b,a; 3 ready zones=b,d; 4 ready zones=a", "1 2 4", ""},
		"zone hints, but the node has no zone":                   {"zone=none", "1 ready zones=a; 2 ready zones=b", "1 2", ""},
		"zone hints, none for this zone":                         {"zone=b", "1 ready zones=a; 2 ready zones=c", "1 2", ""},
		"one ready endpoint has no zone hint":                    {"", "1 ready zones=a; 2 ready zones=b; 3 ready; 4 ready zones=a", "1 2 3 4", ""},
		"one that is not ready has no zone hint":                 {"", "1 ready zones=a; 2 ready zones=b; 3", "1", ""},
		"an unready endpoint of this zone is not used":           {"", "1 ready zones=a; 2 ready zones=b; 3 ready zones=c; 4 zones=a", "1", ""},
		"all endpoints of this zone are unready: no filter":      {"", "1 zones=a; 2 ready zones=b; 3 ready zones=c; 4 zones=a", "2 3", ""},
		"all terminate: zones have no say":                       {"", "1 ending zones=a; 2 ending zones=b", "1 2", ""},
		"a terminating endpoint of this zone, a ready elsewhere": {"", "1 ending zones=a; 2 ready zones=b", "2", ""},
		"internal Local: zones have no say":                      {"internal", "1 ready here zones=a; 2 ready here zones=b", "", "1 2"},
		"internal Local, exposed: zones for the outside only": {
			"internal exposed", "1 ready here zones=a; 2 ready here zones=b; 3 ready zones=c; 4 ready zones=a", "1 4", "1 2",
		},
		"external Local: zones for the inside only": {
			"external exposed", "1 ready here zones=a; 2 ready here zones=b; 3 ready zones=c; 4 ready zones=a", "1 4", "1 2",
		},
		"zone and node disagree, the sets overlap": {
			"external exposed", "1 ready here zones=a; 2 ready here zones=b; 3 ready zones=a; 4 ready zones=b", "1 3", "1 2",
		},

		// Nodes.
		"node hints for all: those for this node":                  {"", "1 ready here zones=a nodes=a; 2 ready zones=b nodes=b; 3 ready zones=a nodes=c", "1", ""},
		"a node hint may be for an endpoint elsewhere":             {"", "1 ready nodes=b; 2 ready nodes=b,a", "2", ""},
		"one ready endpoint has no hints: no filter at all":        {"", "1 ready zones=a nodes=a; 2 ready; 3 ready zones=a nodes=b", "1 2 3", ""},
		"one ready endpoint has no node hint: zones decide":        {"", "1 ready zones=b nodes=a; 2 ready zones=a; 3 ready zones=a nodes=b", "2 3", ""},
		"node hints, none for this node: zones decide":             {"", "1 ready zones=a nodes=b; 2 ready zones=b nodes=c; 3 ready zones=a nodes=d", "1 3", ""},
		"node hints, none for this node or zone: no filter":        {"", "1 ready zones=b nodes=b; 2 ready zones=c nodes=c", "1 2", ""},
		"node hints without zone hints, none for this node":        {"", "1 ready nodes=b; 2 ready nodes=c", "1 2", ""},
		"the endpoint of this node is not ready":                   {"", "1 nodes=a; 2 ready nodes=b", "2", ""},
		"a node hint for this node, and zones say something else":  {"", "1 ready zones=b nodes=a; 2 ready zones=a nodes=b", "1", ""},
		"external Local: the outside does not care for node hints": {"external exposed", "1 ready here nodes=b; 2 ready nodes=a", "2", "1"},

		// Endpoints that do not say where they are.
		"an unknown node may be this one, for hairpin":  {"", "1 ready nowhere; 2 ready", "1 2", ""},
		"an unknown node is not this one, for policies": {"internal", "1 ready nowhere; 2 ready here", "", "2"},
		"what is in no set cannot meet itself":          {"", "1 ending here; 2 nowhere; 3 ready", "3", ""},
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
				_, zone, _ := strings.Cut(tc.policy, "zone=")
				st.Node = model.Node{Name: "node-a", Zone: "zone-" + cmp.Or(zone, "a")}
				if zone == "none" {
					st.Node.Zone = ""
				}
				got := onlyPort(t, planOf(model.Settings{Family: f}, st))
				cluster := endpointAddrs(f, strings.TrimPrefix(tc.cluster, "none"))
				wantEqual(t, "Cluster", cluster, got.Cluster)
				wantEqual(t, "Local", endpointAddrs(f, tc.local), got.Local)
				wantEqual(t, "HasEndpoints", tc.cluster != "none", got.HasEndpoints)
				var hairpin []netip.AddrPort // what is used, and on this node or on one that is not said
				for _, e := range s.Endpoints {
					if e.Node != "node-z" && slices.Contains(slices.Concat(cluster, got.Local), e.Addr) {
						hairpin = append(hairpin, e.Addr)
					}
				}
				wantEqual(t, "Hairpin", hairpin, got.Hairpin)
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

// TestServing has endpoints that flows may stay with, whatever new ones use; flows of TCP are not
// asked about.
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
			model.TCP: nil, model.UDP: endpointAddrs(f, "2 3 4"), model.SCTP: endpointAddrs(f, "2 3 4")}, got)
	})
}

// TestUnknownNode has an agent that does not know its node: no endpoint or hint is for it.
func TestUnknownNode(t *testing.T) {
	s := aService(model.IPv4, "web", 0, "10.96.0.1")
	s.InternalLocal = true
	s.Ports[0].NodePort = 30000
	s.Endpoints = someEndpoints(model.IPv4, "1 ready here nodes=a zones=a; 2 ready nowhere nodes=b zones=b")
	s.Endpoints[1].Hints = &model.Hints{Zones: []string{""}, Nodes: []string{""}}
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
		"terminating, though published as ready": {v4: "1 ready ending here", want: 1},
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

// TestHealthCheckPorts has several ports of one pod, which count once, and useless addresses.
func TestHealthCheckPorts(t *testing.T) {
	s := aService(model.IPv4, "web", 0, "10.96.0.1")
	s.Endpoints = someEndpoints(model.IPv4, "1 ready here; 1 ready here; 2 ready here")
	s.Endpoints[1].Port = "https"
	s.Endpoints[2].Addr = netip.AddrPortFrom(s.Endpoints[2].Addr.Addr(), 0)
	if port, local, ok := HealthCheck("node-a", s); ok || port != 0 || local != 0 {
		t.Errorf("a Service without a health check port has port %d, %d local endpoints, %t", port, local, ok)
	}
	s.HealthCheckNodePort = 32000
	for node, want := range map[string]int{"node-a": 1, "": 0} {
		if _, local, _ := HealthCheck(node, s); local != want {
			t.Errorf("%d local endpoints of %q, want %d", local, node, want)
		}
	}
}

// TestJoin has which endpoints a port has: those of its name and protocol, whatever the numbers.
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
		internalLocal              bool
		one, other, cluster, local string
	}{
		"one terminates, the other is ready":            {false, "1 ending", "1 ready", "1", ""},
		"one terminates, the other is not ready":        {false, "1 ending", "1", "", ""},
		"one terminates and is published, other unsure": {false, "1 ready ending", "1", "", ""},
		"one is ready, the other not":                   {false, "1", "1 ready", "1", ""},
		"one is published, the other serves":            {false, "1 serving", "1 published", "1", ""},
		"one serves while it terminates, the other not": {false, "1 gone", "1 ending", "1", ""},
		"both alike, one says where it is":              {true, "1 ready nowhere", "1 ready here", "", "1"},
		"both alike, on two nodes":                      {true, "1 ready", "1 ready here", "", "1"},
		"the ready one is elsewhere":                    {true, "1 ready", "1 here", "", ""},
		"with and without hints":                        {false, "1 ready", "1 ready zones=b", "1", ""},
	} {
		t.Run(name, func(t *testing.T) {
			inBoth(t, func(t *testing.T, f model.Family) {
				for _, list := range []string{tc.one + ";" + tc.other, tc.other + ";" + tc.one} {
					s := aService(f, "web", 0, "10.96.0.1")
					s.InternalLocal, s.Endpoints = tc.internalLocal, someEndpoints(f, list)
					st := stateOf(s)
					st.Node.Name = "node-a"
					got := onlyPort(t, planOf(model.Settings{Family: f}, st))
					want := [][]netip.AddrPort{endpointAddrs(f, tc.cluster), endpointAddrs(f, tc.local), endpointAddrs(f, tc.local)}
					wantEqual(t, list+": Cluster, Local, Hairpin", want, [][]netip.AddrPort{got.Cluster, got.Local, got.Hairpin})
				}
			})
		})
	}
}

// TestUnusableEndpoints has addresses that nothing can be sent to, and why in each family.
func TestUnusableEndpoints(t *testing.T) {
	const other = "of the other family"
	for addr, want := range map[string][2]string{
		"10.1.0.1:80":              {"", other},
		"[2001:db8::1]:80":         {other, ""},
		"[::ffff:10.1.0.1]:80":     {"an IPv4 address mapped into IPv6", "an IPv4 address mapped into IPv6"},
		"[2001:db8::1%eth0]:80":    {other, "an address with a zone"},
		"0.0.0.0:0":                {"the unspecified address", other},
		"[::]:80":                  {other, "the unspecified address"},
		"127.255.0.1:80":           {"a loopback address", other},
		"[::1]:80":                 {other, "a loopback address"},
		"224.0.0.251:80":           {"a multicast address", other},
		"[ff02::fb]:80":            {other, "a multicast address"},
		"169.254.169.254:80":       {"a link-local address", other},
		"[fe80::1]:80":             {other, "a link-local address"},
		"10.1.0.1:0":               {"port 0", other},
		"255.255.255.255:80":       {"the broadcast address", other},
		"[2001:db8::ffff:ffff]:80": {other, ""},
	} {
		e := netip.MustParseAddrPort(addr)
		if got := [2]string{whyNoEndpoint(e, model.IPv4), whyNoEndpoint(e, model.IPv6)}; got != want {
			t.Errorf("%s: %q, want %q", addr, got, want)
		}
	}
	if got := whyNoEndpoint(netip.AddrPort{}, model.IPv4); got != "no address" {
		t.Errorf("the zero AddrPort: %q", got)
	}
}
