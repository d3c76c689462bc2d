//go:build linux

package flowtest

import (
	"net/netip"
	"testing"

	"github.com/clusterip-operator/clusterip-operator/test/framework/network"
)

func TestWants(t *testing.T) {
	a, b := netip.MustParseAddrPort("10.180.1.12:8080"), netip.MustParseAddrPort("10.180.2.11:8080")
	client, node := netip.MustParseAddrPort("192.0.2.100:1"), netip.MustParseAddrPort("192.0.2.10:1")
	localhost := netip.MustParseAddrPort("127.0.0.1:1")
	at := func(endpoint, client, source netip.AddrPort) network.Result {
		return network.Result{Outcome: network.Connected, Endpoint: endpoint, Client: client, Source: source}
	}
	for name, tc := range map[string]struct {
		want Want
		got  network.Result
		ok   bool
	}{
		"an endpoint that is wanted":               {Reaches(a, b), at(b, client, client), true},
		"one that is not":                          {Reaches(a), at(b, client, client), false},
		"none":                                     {Reaches(a), network.Result{Outcome: network.Dropped}, false},
		"preserved, as wanted":                     {Reaches(a).Preserved(), at(a, client, client), true},
		"masqueraded, but not wanted":              {Reaches(a).Preserved(), at(a, client, node), false},
		"masqueraded, as wanted":                   {Reaches(a).Masqueraded(), at(a, client, node), true},
		"preserved, but not wanted":                {Reaches(a).Masqueraded(), at(a, client, client), false},
		"the node has the node's address":          {Reaches(a).Masqueraded(), at(a, node, node), true},
		"the node's localhost must be masqueraded": {Reaches(a).Masqueraded(), at(a, localhost, localhost), false},
		"changed to an unrelated address":          {Reaches(a).Masqueraded(), at(a, client, b), false},
	} {
		if err := tc.want.judge(tc.got); (err == nil) != tc.ok {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
