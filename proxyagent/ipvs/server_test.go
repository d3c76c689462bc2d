//go:build linux

package ipvs

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

var (
	vip  = front{model.TCP, netip.MustParseAddrPort("10.96.0.1:80")}
	one  = netip.MustParseAddrPort("10.244.1.1:8080")
	two  = netip.MustParseAddrPort("10.244.1.2:8080")
	rr   = balancing{scheduler: model.RoundRobin}
	lc   = balancing{scheduler: model.LeastConnection}
	dh   = balancing{scheduler: model.DestinationHashing}
	stay = balancing{scheduler: model.RoundRobin, seconds: 60}
)

func with(b balancing, weights map[netip.AddrPort]int) *server { return &server{b, weights} }

func TestDecide(t *testing.T) {
	udp := front{model.UDP, vip.at}
	mark := vip.mark()
	for name, c := range map[string]struct {
		front
		want, have           *server
		wantBuild, wantClear []step
	}{
		"nothing": {front: vip},
		"new": {vip, with(rr, map[netip.AddrPort]int{one: 1}), nil,
			[]step{{action: addServer, front: vip, balancing: rr}, {action: addEndpoint, front: vip, endpoint: one, weight: 1}}, nil},
		"new, without endpoints": {vip, with(rr, nil), nil, nil, nil},
		"a mark":                 {mark, with(rr, nil), nil, []step{{action: addServer, front: mark, balancing: rr}}, nil},
		"a mark that is there":   {mark, with(rr, nil), with(rr, nil), nil, nil},
		"gone, with what drained": {vip, nil, with(rr, map[netip.AddrPort]int{one: 0}), nil,
			[]step{{action: removeServer, front: vip}}},
		"an endpoint more": {vip, with(rr, map[netip.AddrPort]int{one: 1, two: 1}), with(rr, map[netip.AddrPort]int{one: 1}),
			[]step{{action: addEndpoint, front: vip, endpoint: two, weight: 1}}, nil},
		"an endpoint goes": {vip, with(rr, map[netip.AddrPort]int{one: 1}), with(rr, map[netip.AddrPort]int{one: 1, two: 1}), nil,
			[]step{{action: setWeight, front: vip, endpoint: two}}},
		"an endpoint drains":     {vip, with(rr, map[netip.AddrPort]int{one: 1}), with(rr, map[netip.AddrPort]int{one: 1, two: 0}), nil, nil},
		"an endpoint comes back": {vip, with(rr, map[netip.AddrPort]int{one: 1}), with(rr, map[netip.AddrPort]int{one: 0}), []step{{action: setWeight, front: vip, endpoint: one, weight: 1}}, nil},
		"the last endpoint goes": {vip, with(rr, nil), with(rr, map[netip.AddrPort]int{one: 1}), nil, []step{{action: setWeight, front: vip, endpoint: one}}},
		"the last has drained":   {vip, with(rr, nil), with(rr, nil), nil, []step{{action: removeServer, front: vip}}},
		"UDP goes at once": {udp, with(rr, map[netip.AddrPort]int{one: 1}), with(rr, map[netip.AddrPort]int{one: 1, two: 1}), nil,
			[]step{{action: removeEndpoint, front: udp, endpoint: two}}},
		"the last of UDP": {udp, with(rr, nil), with(rr, map[netip.AddrPort]int{one: 1, two: 1}), nil, []step{{action: removeServer, front: udp}}},
		"dh drains nothing": {vip, with(dh, map[netip.AddrPort]int{one: 1}), with(dh, map[netip.AddrPort]int{one: 1, two: 1}), nil,
			[]step{{action: removeEndpoint, front: vip, endpoint: two}}},
		"another scheduler": {vip, with(lc, map[netip.AddrPort]int{one: 1}), with(rr, map[netip.AddrPort]int{one: 1}), []step{{action: setServer, front: vip, balancing: lc}}, nil},
		"affinity":          {vip, with(stay, map[netip.AddrPort]int{one: 1}), with(rr, map[netip.AddrPort]int{one: 1}), []step{{action: setServer, front: vip, balancing: stay}}, nil},
		"another weight":    {vip, with(rr, map[netip.AddrPort]int{one: 5}), with(rr, map[netip.AddrPort]int{one: 1}), []step{{action: setWeight, front: vip, endpoint: one, weight: 5}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			build, clear := decide(c.front, c.want, c.have)
			same := cmp.AllowUnexported(step{}, front{}, balancing{})
			compareAddr := cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b })
			if diff := cmp.Diff(c.wantBuild, build, same, compareAddr); diff != "" {
				t.Errorf("build: %s", diff)
			}
			if diff := cmp.Diff(c.wantClear, clear, same, compareAddr); diff != "" {
				t.Errorf("clear: %s", diff)
			}
		})
	}
}

func TestWeights(t *testing.T) {
	both := []netip.AddrPort{one, two}
	for name, c := range map[string]struct {
		weights model.Weights
		want    map[netip.AddrPort]int
	}{
		"without":            {nil, map[netip.AddrPort]int{one: 1, two: 1}},
		"one of them":        {model.Weights{one: 7}, map[netip.AddrPort]int{one: 7, two: 1}},
		"none for new ones":  {model.Weights{one: 0}, map[netip.AddrPort]int{one: 0, two: 1}},
		"none has more than": {model.Weights{one: 0, two: 0}, map[netip.AddrPort]int{one: 1, two: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, weightsOf(&model.ServicePort{Weights: c.weights}, both), cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b })); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestOurs(t *testing.T) {
	node, other, virtual := netip.MustParseAddr("192.0.2.10"), netip.MustParseAddr("192.0.2.99"), netip.MustParseAddr("10.96.0.1")
	at := func(a netip.Addr, port uint16) front { return front{model.TCP, netip.AddrPortFrom(a, port)} }
	have := observed{
		servers: map[front]*server{at(node, 30000).mark(): {}, at(node, 30000): {}, at(other, 30000): {}, at(node, 443): {}, at(virtual, 80): {}},
		bound:   map[netip.Addr]bool{virtual: true}, own: []netip.Addr{node},
	}
	for name, c := range map[string]struct {
		front
		exclude []netip.Prefix
		want    bool
	}{
		"at our interface":               {front: at(virtual, 80), want: true},
		"at our interface, but excluded": {front: at(virtual, 80), exclude: []netip.Prefix{netip.MustParsePrefix("10.96.0.0/16")}},
		"a mark":                         {front: at(node, 30000).mark(), want: true},
		"a node port":                    {front: at(node, 30000), want: true},
		"another port of the node":       {front: at(node, 443)},
		"the same port elsewhere":        {front: at(other, 30000)},
	} {
		t.Run(name, func(t *testing.T) {
			if got := have.ours(c.front, c.exclude); got != c.want {
				t.Errorf("got %t", got)
			}
		})
	}
}

func TestOfKubeProxy(t *testing.T) {
	node, virtual, taken := netip.MustParseAddr("192.0.2.10"), netip.MustParseAddr("10.96.0.1"), netip.MustParseAddr("10.96.0.2")
	at := func(p model.Protocol, a netip.Addr, port uint16) front { return front{p, netip.AddrPortFrom(a, port)} }
	have := observed{
		servers: map[front]*server{at(model.TCP, node, 30001).mark(): {}}, own: []netip.Addr{node},
		bound: map[netip.Addr]bool{virtual: true, taken: true}, others: map[netip.Addr]bool{taken: true},
	}
	ports := map[model.Protocol]map[uint16]bool{model.TCP: {30000: true, 30001: true}}
	for name, c := range map[string]struct {
		front
		want bool
	}{
		"at its interface":          {at(model.UDP, virtual, 53), true},
		"at both interfaces":        {at(model.UDP, taken, 53), false},
		"a node port":               {at(model.TCP, node, 30000), true},
		"over another protocol":     {at(model.UDP, node, 30000), false},
		"a node port that we serve": {at(model.TCP, node, 30001), false},
		"another port of the node":  {at(model.TCP, node, 443), false},
		"the same port elsewhere":   {at(model.TCP, netip.MustParseAddr("192.0.2.99"), 30000), false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := have.ofKubeProxy(c.front, ports); got != c.want {
				t.Errorf("got %t", got)
			}
		})
	}
}
