package trace

import (
	"context"
	"net/netip"
	"regexp"
	"strings"
	"testing"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/ipset"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/iptables"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// cluster is a plan with one Service of each kind that the tests trace, as the agent programs it.
type cluster struct {
	variant
	vip, lonely, dns, near, far, pod, node, client netip.Addr
}

func newCluster(v variant) cluster {
	return cluster{
		variant: v,
		vip:     v.addr("10.96.0.1", "fd00:96::1"), lonely: v.addr("10.96.0.2", "fd00:96::2"), dns: v.addr("10.96.0.3", "fd00:96::3"),
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
	udp := model.PortName{Service: model.ServiceName{Namespace: "default", Name: "dns"}, Protocol: model.UDP}
	sctp := udp
	sctp.Protocol = model.SCTP
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
			udp:    {Name: udp, ClusterIPs: []netip.Addr{c.dns}, Port: 53, HasEndpoints: true, Cluster: endpoints},
			sctp:   {Name: sctp, ClusterIPs: []netip.Addr{c.dns}, Port: 53, HasEndpoints: true, Cluster: endpoints},
		},
		Allocated: map[netip.Addr]bool{c.vip: true, c.lonely: true, c.dns: true},
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

// traced runs and returns the line of the verdict.
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
		either := "goes to (" + regexp.QuoteMeta(near) + "|" + regexp.QuoteMeta(far) + "), with "
		own, refused := "its own source", "ended by .* CIPA-[^:]*: .*(REJECT|reject)"
		for name, tc := range map[string]struct {
			o    Options
			want string
		}{
			"from a pod":          {Options{Src: c.pod, Dst: at(c.vip, 80)}, either + own},
			"by UDP":              {Options{Src: c.pod, Dst: at(c.dns, 53), Protocol: model.UDP}, either + own},
			"by SCTP":             {Options{Src: c.pod, Dst: at(c.dns, 53), Protocol: model.SCTP}, either + own},
			"from the node":       {Options{Dst: at(c.vip, 80)}, either},
			"from outside":        {Options{Src: c.client, Dst: at(c.vip, 80)}, either + "the source "},
			"to the node port":    {Options{Src: c.client, Dst: at(c.node, 30080)}, "goes to " + regexp.QuoteMeta(near) + ", with " + own},
			"from the node to it": {Options{Src: c.node, Dst: at(c.node, 30080)}, either},
			"by a pod's interface": {
				Options{Src: c.client, Dst: at(c.node, 30080), InInterface: "cni0"}, "goes to " + regexp.QuoteMeta(near) + ", with " + own,
			},
			"a port of no Service":     {Options{Src: c.pod, Dst: at(c.vip, 81)}, refused},
			"no endpoints":             {Options{Src: c.pod, Dst: at(c.lonely, 80)}, refused},
			"no endpoints, by UDP":     {Options{Src: c.pod, Dst: at(c.lonely, 80), Protocol: model.UDP}, refused},
			"no endpoints, the node":   {Options{Dst: at(c.lonely, 80)}, refused},
			"an address of no Service": {Options{Src: c.pod, Dst: at(c.lonely.Next().Next().Next(), 80)}, "ended by .* CIPA-NEW: .*(DROP|drop)"},
			"something else":           {Options{Src: c.pod, Dst: at(c.client, 443)}, "goes to " + regexp.QuoteMeta(at(c.client, 443).String()) + ", with " + own},
			"the node itself": {
				Options{Src: c.pod, Dst: at(c.node, 22)}, "goes to " + regexp.QuoteMeta(at(c.node, 22).String()) + " on this node itself, with " + own,
			},
		} {
			t.Run(name, func(t *testing.T) {
				if got := traced(t, tc.o); !regexp.MustCompile("^" + tc.want).MatchString(got) {
					t.Errorf("the verdict is\n%s, want\n%s", got, tc.want)
				}
			})
		}
	})
}

func TestWhatOthersDoIsTold(t *testing.T) {
	eachVariant(t, func(t *testing.T, v variant) {
		c := newCluster(v)
		o := Options{Src: c.pod, Dst: netip.AddrPortFrom(c.client, 443)}
		const foreign = "table inet foreign {\nchain over {\ntype filter hook forward priority 10; policy drop;\nudp dport 1 accept\n}\n}\n"
		for _, step := range []struct{ name, rules, table, want, line string }{
			{"a policy", "*filter\n:FORWARD DROP\nCOMMIT\n", "", "ended by .* filter FORWARD: policy DROP$", ""},
			{"a rule without a condition", "*filter\n-A FORWARD -p udp -j ACCEPT\n-A FORWARD -j DROP\n-A FORWARD -j ACCEPT\nCOMMIT\n", "", "ended by .* filter FORWARD: -j DROP$", ""},
			{"a rule", "*filter\n-A FORWARD -p udp -j ACCEPT\n-A FORWARD -p tcp --dport 443 -j DROP\nCOMMIT\n", "", "ended by .* filter FORWARD: .*dport 443", ""},
			{"a policy of nftables", "*filter\n-A FORWARD -j ACCEPT\nCOMMIT\n", foreign, "ended by inet foreign over: policy DROP$", " filter FORWARD: .*(ACCEPT|accept)\n"},
			{"another source", "*nat\n-A POSTROUTING -j MASQUERADE\nCOMMIT\n", "", "goes to .*:443, with the source ", " nat POSTROUTING: .*(?i)masquerade\n"},
			{"untracked", "*raw\n-A PREROUTING -j NOTRACK\nCOMMIT\n", "", "goes to .*:443, with its own source", " raw PREROUTING: .*(?i)notrack|CT --notrack\n"},
		} {
			t.Run(step.name, func(t *testing.T) {
				t.Cleanup(func() {
					v.restore(t, "*raw\nCOMMIT\n*nat\nCOMMIT\n*filter\n:FORWARD ACCEPT\nCOMMIT\n")
					command(t, "add table inet foreign\ndelete table inet foreign\n", "nft", "-f", "-")
				})
				v.restore(t, step.rules)
				command(t, step.table, "nft", "-f", "-")
				var out strings.Builder
				if err := Run(t.Context(), &out, o); err != nil {
					t.Fatal(err)
				}
				if !regexp.MustCompile("(?m)^Verdict: "+step.want).MatchString(out.String()) || !regexp.MustCompile(step.line).MatchString(out.String()) {
					t.Errorf("want the verdict %s and the line %s, got\n%s", step.want, step.line, &out)
				}
			})
		}
	})
}

// behind counts what passes behind all rules; ours shall be the last one that the packet meets.
const behind = `table inet behind {
chain input { type filter hook input priority 600
tcp dport 22 counter
}
chain postrouting { type filter hook postrouting priority 600
tcp flags syn counter
}
}`

func TestThePacketReachesNoHostAndNothingIsLeft(t *testing.T) {
	eachVariant(t, func(t *testing.T, v variant) {
		c := newCluster(v)
		c.program(t)
		command(t, "add table inet behind\ndelete table inet behind\n"+behind, "nft", "-f", "-")
		t.Cleanup(func() { command(t, "", "nft", "delete", "table", "inet", "behind") })
		logs := func() string {
			return command(t, "", "cat", "/proc/sys/net/netfilter/nf_log/2", "/proc/sys/net/netfilter/nf_log/10")
		}
		before := logs()
		command(t, "", "conntrack", "-F")
		// What a run that was killed leaves.
		command(t, "", "ip", "link", "add", outside, "type", "veth", "peer", "name", inside)
		command(t, "table inet cipa-trace {\nchain old {\ntype filter hook forward priority 0; policy drop;\n}\n}\n", "nft", "-f", "-")
		for _, o := range []Options{
			{Src: c.pod, Dst: netip.AddrPortFrom(c.vip, 80)},
			{Dst: netip.AddrPortFrom(c.vip, 80)},
			{Src: c.pod, Dst: netip.AddrPortFrom(c.node, 22)},
		} {
			if got := traced(t, o); !strings.HasPrefix(got, "goes to ") {
				t.Errorf("the verdict is %s", got)
			}
		}
		if got := command(t, "", "nft", "list", "table", "inet", "behind"); strings.Count(got, "counter packets 0 bytes 0") != 2 {
			t.Errorf("packets went on: %s", got)
		}
		if got := command(t, "", "conntrack", "-L", "-f", strings.ToLower(v.family.String())); strings.Contains(got, "dport") {
			t.Errorf("connections are tracked: %s", got)
		}
		if got := command(t, "", "nft", "list", "tables") + command(t, "", "ip", "link"); strings.Contains(got, "cipa-trace") {
			t.Errorf("something is left: %s", got)
		}
		if got := logs(); got != before {
			t.Errorf("the log of netfilter is %s, and was %s", got, before)
		}
	})
}

func TestQuestionsWithoutAnAnswerAreErrors(t *testing.T) {
	makeNode(t)
	command(t, "", "ip", "route", "add", "unreachable", "203.0.113.0/24")
	t.Cleanup(func() { command(t, "", "ip", "route", "del", "unreachable", "203.0.113.0/24") })
	addr, to := netip.MustParseAddr("10.244.1.9"), netip.MustParseAddrPort("10.9.9.9:80")
	for want, o := range map[string]Options{
		"an address and a port are needed to trace to":                               {Src: addr},
		"10.244.1.9 and fd00::1 are of different families":                           {Src: addr, Dst: netip.MustParseAddrPort("[fd00::1]:80")},
		"sending the packet: looking for the interface wlan7: Link not found":        {Src: addr, Dst: to, InInterface: "wlan7"},
		"looking for the interface that 203.0.113.9 is behind: asking for the route": {Src: netip.MustParseAddr("203.0.113.9"), Dst: to},
		"asking for the route to 203.0.113.9":                                        {Dst: netip.MustParseAddrPort("203.0.113.9:80")},
	} {
		var out strings.Builder
		err := Run(t.Context(), &out, o)
		if err == nil || !strings.HasPrefix(err.Error(), want) || out.Len() > 0 {
			t.Errorf("got the error %v and the output %q, want %s", err, out.String(), want)
		}
	}
	if got := traced(t, Options{Src: addr, Dst: netip.MustParseAddrPort("203.0.113.9:80")}); !strings.HasPrefix(got, "no rule ended it, and routing did") {
		t.Errorf("the verdict on the way to nowhere is %s", got)
	}
}
