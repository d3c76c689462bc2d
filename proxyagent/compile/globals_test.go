package compile

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// TestNodePortAddresses has where node ports are served on a node with the IPs 192.0.2.1 and
// 198.51.100.1. Expectations that differ from kube-proxy 1.37 say so.
func TestNodePortAddresses(t *testing.T) {
	const local, all, first = "192.0.2.1 198.51.100.7 192.0.2.1", "all", "198.51.100.1"
	v4, v6 := netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("::1")
	for name, tc := range map[string]struct {
		cidrs, otherCIDRs    string // of the family, and of the other one
		primary, noLocalhost bool
		noNode               bool
		want                 string // addresses, or all: any local address, and in IPv4 also localhost unless that is switched off
	}{
		"unset":                                              {want: all},
		"unset, without localhost":                           {noLocalhost: true, want: all},
		"one network":                                        {cidrs: "192.0.0.0/8", want: "192.0.2.1"},
		"two networks":                                       {cidrs: "192.0.0.0/8 10.0.0.0/24", want: "10.0.0.7 192.0.2.1"},
		"networks that overlap":                              {cidrs: "192.0.0.0/8 192.0.2.1/32", want: "192.0.2.1"},
		"a network that nothing is in":                       {cidrs: "203.0.113.0/24"},
		"everything and something":                           {cidrs: "10.0.0.0/24 0.0.0.0/0", want: all},
		"a network of the other family only":                 {otherCIDRs: "10.0.0.0/24", want: all},
		"everything in the other family":                     {cidrs: "10.0.0.0/24", otherCIDRs: "0.0.0.0/0", want: "10.0.0.7"},
		"the node's own: the first of the family":            {primary: true, want: first},
		"the node's own, not known (kube-proxy: everywhere)": {primary: true, noNode: true},
		"the node's own, and a network":                      {primary: true, cidrs: "10.0.0.0/24", want: "10.0.0.7 " + first},
		"the node's own, and one that it is in":              {primary: true, cidrs: first + "/32", want: first},
		"the node's own, and a network of the other family":  {primary: true, otherCIDRs: "10.0.0.0/24", want: first},
		"the node's own, and the loopback network":           {primary: true, cidrs: "loopback", want: first + " loopback"},
		"the node's own, and everything":                     {primary: true, cidrs: "10.0.0.0/24 0.0.0.0/0", want: all},
		"the loopback network":                               {cidrs: "loopback 10.0.0.0/24", want: "10.0.0.7 loopback"},
		"the loopback network, without localhost":            {cidrs: "loopback 10.0.0.0/24", noLocalhost: true, want: "10.0.0.7"},
	} {
		t.Run(name, func(t *testing.T) {
			inBoth(t, func(t *testing.T, f model.Family) {
				set := model.Settings{Family: f, NodePortPrimary: tc.primary, LocalhostNodePorts: !tc.noLocalhost}
				cidrs, loopback := strings.CutPrefix(tc.cidrs, "loopback")
				set.NodePortCIDRs = append(prefixes(f, cidrs), prefixes(other(f), tc.otherCIDRs)...)
				if loopback {
					set.NodePortCIDRs = append(set.NodePortCIDRs, netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128"))
				}
				st := stateOf()
				st.LocalAddrs = append(append(addrs(f, local), v4, v6, netip.MustParseAddr("fe80::1%eth0")), addrs(other(f), local)...)
				seven := addrs(f, "10.0.0.7")[0].WithZone("eth0") // which an address of IPv4 has not; rules match it without
				st.LocalAddrs = append(st.LocalAddrs, seven)
				if !tc.noNode {
					st.Node.IPs = append(addrs(other(f), "192.0.2.9"), addrs(f, "198.51.100.1 192.0.2.1")...)
				}
				at, atLoopback := strings.CutSuffix(strings.TrimPrefix(tc.want, all), " loopback")
				want := model.Globals{
					Family: f, NodePortAny: tc.want == all, LocalhostNodePorts: tc.want == all && f == model.IPv4 && !tc.noLocalhost,
					NodePortAddrs: addrs(f, at),
				}
				if atLoopback && f == model.IPv4 {
					want.NodePortAddrs = sorted(append(want.NodePortAddrs, v4), netip.Addr.Compare)
				}
				wantEqual(t, "Globals", want, planOf(set, st).Globals)
			})
		})
	}
}

func other(f model.Family) model.Family {
	if f == model.IPv4 {
		return model.IPv6
	}
	return model.IPv4
}

// TestLocalSource has the ways to recognise local pods.
func TestLocalSource(t *testing.T) {
	v4, v6 := netip.MustParsePrefix("10.1.0.0/24"), netip.MustParsePrefix("fd00:1::/64")
	for name, tc := range map[string]struct {
		set      model.Settings
		podCIDRs []netip.Prefix
		want     map[model.Family]model.LocalSource
	}{
		"nothing": {},
		"a CIDR is of one family": {
			set: model.Settings{LocalSource: model.LocalSource{CIDR: v4}}, want: map[model.Family]model.LocalSource{model.IPv4: {CIDR: v4}},
		},
		"an interface is of both": {
			set:  model.Settings{LocalSource: model.LocalSource{Interface: "cni0"}},
			want: map[model.Family]model.LocalSource{model.IPv4: {Interface: "cni0"}, model.IPv6: {Interface: "cni0"}},
		},
		"the node's": {
			set: model.Settings{FromNode: true}, podCIDRs: []netip.Prefix{v6, v4},
			want: map[model.Family]model.LocalSource{model.IPv4: {CIDR: v4}, model.IPv6: {CIDR: v6}},
		},
		"the node's, which has none": {set: model.Settings{FromNode: true}},
		"the node's, not asked for":  {podCIDRs: []netip.Prefix{v6, v4}},
		"the node's, not masked": {set: model.Settings{FromNode: true}, podCIDRs: []netip.Prefix{netip.MustParsePrefix("10.1.0.7/24"), v6},
			want: map[model.Family]model.LocalSource{model.IPv4: {CIDR: v4}, model.IPv6: {CIDR: v6}}},
		"the node's, with malformed ones": {
			set: model.Settings{FromNode: true}, podCIDRs: []netip.Prefix{{}, netip.MustParsePrefix("::ffff:10.1.0.0/120"), v4},
			want: map[model.Family]model.LocalSource{model.IPv4: {CIDR: v4}}},
	} {
		t.Run(name, func(t *testing.T) {
			inBoth(t, func(t *testing.T, f model.Family) {
				st, set := stateOf(), tc.set
				st.Node.PodCIDRs, set.Family = tc.podCIDRs, f
				wantEqual(t, "LocalSource", tc.want[f], planOf(set, st).Globals.LocalSource)
			})
		})
	}
}

// TestRanges has ServiceCIDRs, whose unallocated addresses are dropped, and addresses in use there.
func TestRanges(t *testing.T) {
	inBoth(t, func(t *testing.T, f model.Family) {
		set := model.Settings{Family: f, MasqueradeAll: true, MasqueradeBit: 7, KeepInvalid: true}
		st := stateOf(
			asked("a cluster=10.96.0.1 lb=10.97.0.1 ext=10.97.0.2").claimant(f),
			asked("b day=1 cluster=10.96.0.1 ext=10.97.0.2 lb=203.0.113.1").claimant(f),
			asked("c day=1 cluster=10.96.0.2 x:0/TCP ext=10.97.0.9").claimant(f),
			asked("d day=1 cluster=192.0.2.1").claimant(f),
		)
		st.Allocations = allocationsOf(f, "10.96.0.3=gone 10.96.0.4= 10.96.0.5=+a 192.0.2.2=a")
		st.Ranges = append(prefixes(f, "10.97.0.1/24 10.96.0.0/16 10.97.0.0/24 0.0.0.0/0"), prefixes(other(f), "10.98.0.0/16")...)
		st.Ranges = append(st.Ranges, netip.Prefix{}, netip.MustParsePrefix("::ffff:10.0.0.0/104"))

		got := planOf(set, st)
		wantEqual(t, "Globals", model.Globals{
			Family: f, MasqueradeAll: true, MasqueradeBit: 7, KeepInvalid: true, NodePortAny: true, Ranges: prefixes(f, "10.96.0.0/16 10.97.0.0/24"),
		}, got.Globals)
		want := map[netip.Addr]struct{}{}
		for _, a := range addrs(f, "10.96.0.1 10.97.0.1 10.97.0.2 10.96.0.2 10.96.0.3 10.96.0.4 10.96.0.5") {
			want[a] = struct{}{}
		}
		wantEqual(t, "Allocated", want, got.Allocated)

		set.KeepUnallocated = true
		got = planOf(set, st)
		if len(got.Globals.Ranges) > 0 || len(got.Allocated) > 0 {
			t.Errorf("with KeepUnallocated there are ranges %v and allocations %v", got.Globals.Ranges, got.Allocated)
		}
	})
}

// TestAllocatedByMode has two Services claim an address without IPAddress: enforce refuses both.
func TestAllocatedByMode(t *testing.T) {
	for mode, want := range map[model.AllocationMode]int{model.Prefer: 1, model.Ignore: 1, model.Enforce: 0} {
		st := stateOf(asked("a cluster=10.96.0.1").claimant(model.IPv4), asked("b cluster=10.96.0.1").claimant(model.IPv4))
		st.Ranges = prefixes(model.IPv4, "10.96.0.0/16")
		if got := planOf(model.Settings{Family: model.IPv4, Allocations: mode}, st).Allocated; len(got) != want {
			t.Errorf("%s: allocated are %v, want %d", mode, got, want)
		}
	}
}

// TestSourceRanges has the sources that may use the load balancer IPs 203.0.113.1 and 203.0.113.2,
// on a node with the IPs 192.0.2.1 and 198.51.100.1.
func TestSourceRanges(t *testing.T) {
	const vips = "203.0.113.1/32 203.0.113.2/32"
	for name, tc := range map[string]struct {
		ranges, other, want string
		noLoadBalancer      bool
	}{
		"none: all sources":                     {},
		"some, not masked, sorted, once":        {ranges: "10.2.3.4/8 10.0.0.0/8 8.8.8.8/32", want: "8.8.8.8/32 10.0.0.0/8"},
		"one of length zero: all sources":       {ranges: "10.0.0.0/8 0.0.0.0/0"},
		"all sources of the other family":       {ranges: "10.0.0.0/8", other: "0.0.0.0/0", want: "10.0.0.0/8"},
		"only of the other family: all sources": {other: "10.0.0.0/8"},
		"the node is in it: the IPs may too":    {ranges: "192.0.2.0/24", want: "192.0.2.0/24 " + vips},
		"the node's second IP is in it":         {ranges: "198.51.100.1/32", want: "198.51.100.1/32"},
		"the IPs are in it anyway":              {ranges: "192.0.2.1/32 203.0.113.1/32", want: "192.0.2.1/32 " + vips},
		"the IPs are inside of it anyway":       {ranges: "192.0.2.1/32 203.0.113.0/24", want: "192.0.2.1/32 203.0.113.0/24"},
		"the node of the other family is":       {ranges: "10.0.0.0/8", other: "192.0.2.0/24", want: "10.0.0.0/8"},
		"there is no load balancer IP to keep":  {ranges: "10.0.0.0/8", noLoadBalancer: true},
	} {
		t.Run(name, func(t *testing.T) {
			inBoth(t, func(t *testing.T, f model.Family) {
				s := aService(f, "web", 0, "10.96.0.1")
				s.Ports[0].NodePort = 30000
				if !tc.noLoadBalancer {
					s.LoadBalancerIPs = addrs(f, "203.0.113.2 203.0.113.1")
				}
				s.SourceRanges = append(prefixes(f, tc.ranges), prefixes(other(f), tc.other)...)
				st := stateOf(s)
				st.Node.IPs = append(addrs(f, "192.0.2.1 198.51.100.1"), addrs(other(f), "192.0.2.1")...)
				wantEqual(t, "SourceRanges", prefixes(f, tc.want), onlyPort(t, planOf(model.Settings{Family: f}, st)).SourceRanges)
			})
		})
	}
}

// TestUnusableSourceRanges close the load balancer IPs, and the Service is told: also its other
// family and other Services are served as they ask.
func TestUnusableSourceRanges(t *testing.T) {
	many := func(f model.Family, n int) (all []netip.Prefix) {
		a := netip.MustParseAddr(in(f, "10.0.0.1"))
		for range n {
			all, a = append(all, model.Single(a)), a.Next().Next()
		}
		return all
	}
	for name, tc := range map[string]struct {
		n, ports int
		lost     bool
		vips     string
		closed   bool
	}{
		"as many as may be":                         {n: model.MaxSources, ports: 1, vips: "203.0.113.1"},
		"one more":                                  {n: model.MaxSources + 1, ports: 1, vips: "203.0.113.1", closed: true},
		"each counts at each port and address":      {n: model.MaxSources / 4, ports: 2, vips: "203.0.113.1 203.0.113.2"},
		"each counts at each port and address, too": {n: model.MaxSources/4 + 1, ports: 2, vips: "203.0.113.1 203.0.113.2", closed: true},
		"nothing can be read":                       {ports: 1, lost: true, vips: "203.0.113.1", closed: true},
		"something can be read":                     {n: 1, ports: 1, lost: true, vips: "203.0.113.1"},
		"nothing can be read, no load balancer":     {ports: 1, lost: true},
	} {
		inBoth(t, func(t *testing.T, f model.Family) {
			s := aService(f, "web", 0, "10.96.0.1")
			s.ClusterIPs = append(s.ClusterIPs, addrs(other(f), "10.96.0.1")...)
			s.LoadBalancerIPs = append(addrs(f, tc.vips), addrs(other(f), "203.0.113.9")...)
			s.SourceRanges, s.SourcesLost = append(many(f, tc.n), prefixes(other(f), "10.0.0.0/8")...), tc.lost
			for i := range tc.ports - 1 {
				s.Ports = append(s.Ports, model.Port{Name: fmt.Sprint("more-", i), Protocol: model.TCP, Port: uint16(1000 + i)})
			}
			st := stateOf(s)
			st.Node.IPs = addrs(f, "192.0.2.1")
			c := compilerOf(model.Settings{Family: f}, st)
			var told []model.Degradation
			for n, p := range c.Plan().Ports {
				want := many(f, tc.n)
				if tc.closed {
					want = []netip.Prefix{model.Single(map[model.Family]netip.Addr{model.IPv4: netip.IPv4Unspecified(), model.IPv6: netip.IPv6Unspecified()}[f])}
					told = append(told, model.Degradation{Port: n, Reason: model.SourcesUnusable})
				}
				if tc.vips != "" {
					wantEqual(t, name, want, p.SourceRanges)
				}
			}
			if diff := cmp.Diff(len(told), len(c.Degraded())); diff != "" {
				t.Errorf("%s: %v", name, c.Degraded())
			}
			if explained := strings.Contains(c.Explain(s.Name), model.SourcesUnusable.String()); explained != tc.closed {
				t.Errorf("%s: explained %t:\n%s", name, explained, c.Explain(s.Name))
			}
			wantEqual(t, name+", other family", prefixes(other(f), "10.0.0.0/8"), onlyOf(planOf(model.Settings{Family: other(f)}, st)).SourceRanges)
		})
	}
}

// onlyOf returns any port of a Plan.
func onlyOf(p model.Plan) (any model.ServicePort) {
	for _, any = range p.Ports {
		break
	}
	return any
}
