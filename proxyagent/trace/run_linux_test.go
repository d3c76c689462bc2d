package trace

import (
	"context"
	"net/netip"
	"strings"
	"testing"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/ipset"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/iptables"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// cluster is a plan with one Service of each kind that trace is asked about, as the agent programs it.
type cluster struct {
	variant
	vip, lonely, near, far, pod, node, client netip.Addr
}

func newCluster(v variant) cluster {
	return cluster{
		variant: v,
		vip:     v.addr("10.96.0.1", "fd00:96::1"), lonely: v.addr("10.96.0.2", "fd00:96::2"),
		near: v.addr("10.244.1.3", "fd00:244:1::3"), far: v.addr("10.244.2.3", "fd00:244:2::3"),
		pod: v.addr("10.244.1.9", "fd00:244:1::9"), node: v.addr("192.168.0.1", "fd00:1::1"),
		client: v.addr("198.51.100.7", "2001:db8::7"),
	}
}

func (c cluster) plan() model.Delta {
	name := model.PortName{Service: model.ServiceName{Namespace: "default", Name: "web"}, Protocol: model.TCP}
	endpoints := []netip.AddrPort{netip.AddrPortFrom(c.near, 8080), netip.AddrPortFrom(c.far, 8080)}
	pods := netip.MustParsePrefix("10.244.1.0/24")
	ranges := netip.MustParsePrefix("10.96.0.0/16")
	if c.family == model.IPv6 {
		pods, ranges = netip.MustParsePrefix("fd00:244:1::/64"), netip.MustParsePrefix("fd00:96::/112")
	}
	lonely := name
	lonely.Service.Name = "lonely"
	return model.Delta{
		Globals: &model.Globals{
			Family: c.family, MasqueradeBit: 14, LocalSource: model.LocalSource{CIDR: pods}, NodePortAny: true, Ranges: []netip.Prefix{ranges},
		},
		Ports: map[model.PortName]*model.ServicePort{
			name: {
				Name: name, ClusterIPs: []netip.Addr{c.vip}, Port: 80, NodePort: 30080, ExternalLocal: true, HasEndpoints: true,
				Cluster: endpoints, Local: endpoints[:1], Hairpin: endpoints[:1],
			},
			lonely: {Name: lonely, ClusterIPs: []netip.Addr{c.lonely}, Port: 80},
		},
		Allocated: map[netip.Addr]bool{c.vip: true, c.lonely: true},
	}
}

// program writes the rules of the plan as the agent does.
func (c cluster) program(t *testing.T) {
	t.Helper()
	sets, err := ipset.Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sets.Close)
	p, err := iptables.New(iptables.Options{Mode: c.mode, Family: c.family, Sets: sets})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		o := iptables.CleanupOptions{Family: c.family, Modes: []iptables.Mode{iptables.Mode(c.mode)}, Sets: sets}
		if _, err := iptables.Cleanup(context.Background(), o); err != nil {
			t.Error(err)
		}
	})
	if _, err := p.Sync(t.Context(), c.plan()); err != nil {
		t.Fatal(err)
	}
}

// traced runs and returns the lines of the verdict.
func traced(t *testing.T, o Options) string {
	t.Helper()
	var out strings.Builder
	if err := Run(t.Context(), &out, o); err != nil {
		t.Fatal(err)
	}
	t.Logf("\n%s", out.String())
	_, verdict, _ := strings.Cut(out.String(), "Verdict: ")
	return strings.TrimSpace(verdict)
}

func TestTheRulesOfTheAgentAreTraced(t *testing.T) {
	eachVariant(t, func(t *testing.T, v variant) {
		c := newCluster(v)
		c.program(t)
		at := func(a netip.Addr, port uint16) netip.AddrPort { return netip.AddrPortFrom(a, port) }
		near, far := at(c.near, 8080).String(), at(c.far, 8080).String()
		both := "goes to " + near + " (1/2), " + far + " (1/2), "
		for name, tc := range map[string]struct {
			o    Options
			want string
		}{
			"from a pod": {Options{Src: c.pod, Dst: at(c.vip, 80)}, both + "with its own source"},
			"from an endpoint": {Options{Src: c.near, Dst: at(c.vip, 80)},
				"goes to " + far + " (1/2), with its own source\n     or: goes to " + near + " (1/2), with the node's address"},
			"from the node":       {Options{Dst: at(c.vip, 80)}, both + "with the node's address"},
			"from outside":        {Options{Src: c.client, Dst: at(c.vip, 80)}, both + "with the node's address"},
			"to the node port":    {Options{Src: c.client, Dst: at(c.node, 30080)}, "goes to " + near + ", with its own source"},
			"from the node to it": {Options{Src: c.node, Dst: at(c.node, 30080)}, both + "with the node's address"},
			"by a pod's interface": {
				Options{Src: c.client, Dst: at(c.node, 30080), InInterface: "cni0"}, "goes to " + near + ", with its own source",
			},
			"a port of no Service":     {Options{Src: c.pod, Dst: at(c.vip, 81)}, "refused by "},
			"no endpoints":             {Options{Src: c.pod, Dst: at(c.lonely, 80)}, "refused by "},
			"no endpoints, by UDP":     {Options{Src: c.pod, Dst: at(c.lonely, 80), Protocol: model.UDP}, "refused by "},
			"no endpoints, the node":   {Options{Dst: at(c.lonely, 80)}, "refused by "},
			"an address of no Service": {Options{Src: c.pod, Dst: at(c.lonely.Next().Next(), 80)}, "dropped by -A CIPA-NEW -d "},
			"something else": {
				Options{Src: c.pod, Dst: at(c.client, 443)}, "goes to " + at(c.client, 443).String() + ", with its own source",
			},
			"the node itself": {
				Options{Src: c.pod, Dst: at(c.node, 22)}, "goes to " + at(c.node, 22).String() + " on this node itself, with its own source",
			},
		} {
			t.Run(name, func(t *testing.T) {
				if got := traced(t, tc.o); !strings.HasPrefix(got, tc.want) {
					t.Errorf("the verdict is\n%s, want\n%s", got, tc.want)
				}
			})
		}
	})
}

func TestTheVariantWithOurChainsIsWalked(t *testing.T) {
	makeNode(t)
	nft, legacy := variant{iptables.NFT, model.IPv4}, variant{iptables.Legacy, model.IPv4}
	o := Options{Src: netip.MustParseAddr(pod), Dst: netip.MustParseAddrPort("10.9.9.9:80")}
	for _, step := range []struct {
		does func()
		want string
	}{
		{func() {}, "Rules of iptables-nft: 0\nA new TCP"},
		{func() { legacy.restore(t, filter("-A FORWARD -j DROP")) }, "Rules of iptables-legacy: 1\nA new TCP"},
		{func() {
			nft.restore(t, filter(":CIPA-X - [0:0]", "-A FORWARD -p udp -j DROP", "-A FORWARD -p sctp -j DROP"))
		},
			"Rules of iptables-nft: 2\nThe kernel also asks those of iptables-legacy, 1, which are not walked here.\nA new TCP"},
		{func() { nft.restore(t, filter()); legacy.restore(t, filter(":CIPA-X - [0:0]")) }, "Rules of iptables-legacy: 0\nA new TCP"},
	} {
		step.does()
		var out strings.Builder
		if err := Run(t.Context(), &out, o); err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(out.String(), step.want) {
			t.Errorf("the output is\n%s, want\n%s", out.String(), step.want)
		}
	}
}

func TestQuestionsWithoutAnAnswerAreErrors(t *testing.T) {
	makeNode(t)
	command(t, "", "ip", "route", "add", "unreachable", "203.0.113.0/24")
	t.Cleanup(func() { command(t, "", "ip", "route", "del", "unreachable", "203.0.113.0/24") })
	addr, to := netip.MustParseAddr(pod), netip.MustParseAddrPort("10.9.9.9:80")
	for want, o := range map[string]Options{
		"an address and a port are needed to trace to":                               {Src: addr},
		"10.244.1.2 and fd00::1 are of different families":                           {Src: addr, Dst: netip.MustParseAddrPort("[fd00::1]:80")},
		"looking for the interface wlan7: Link not found":                            {Src: addr, Dst: to, InInterface: "wlan7"},
		"iptables-bpf-save is needed":                                                {Src: addr, Dst: to, Mode: "bpf"},
		"looking for the interface that 203.0.113.9 is behind: asking for the route": {Src: netip.MustParseAddr("203.0.113.9"), Dst: to},
	} {
		var out strings.Builder
		err := Run(t.Context(), &out, o)
		if err == nil || !strings.HasPrefix(err.Error(), want) || out.Len() > 0 {
			t.Errorf("got the error %v and the output %q, want %s", err, out.String(), want)
		}
	}
}
