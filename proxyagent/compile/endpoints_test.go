package compile

import (
	"net/netip"
	"testing"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

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
		for n, p := range Compile(model.Settings{Family: f}, stateOf(s)).Ports {
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
					got := onlyPort(t, Compile(model.Settings{Family: f}, st))
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
			got := onlyPort(t, Compile(model.Settings{Family: f}, stateOf(s)))
			if used := len(got.Cluster) == 2; used != (why == "") {
				t.Errorf("%s in %s: endpoints are %v, but the reason is %q", addr, f, got.Cluster, why)
			}
		}
	}
	if got := whyNoEndpoint(netip.AddrPort{}, model.IPv4); got != "no address" {
		t.Errorf("the zero AddrPort: %q", got)
	}
}
