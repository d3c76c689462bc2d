package rules

import (
	"fmt"
	"maps"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/test/framework/plans"
)

// written reads addresses, endpoints or prefixes that are separated by spaces.
func written[T any](parse func(string) T, s string) []T {
	var all []T
	for word := range strings.FieldsSeq(s) {
		all = append(all, parse(word))
	}
	return all
}

func addrs(s string) []netip.Addr         { return written(netip.MustParseAddr, s) }
func endpoints(s string) []netip.AddrPort { return written(netip.MustParseAddrPort, s) }
func prefixesOf(s string) []netip.Prefix  { return written(netip.MustParsePrefix, s) }
func named(p model.Protocol) model.PortName {
	n := plans.Name()
	n.Protocol = p
	return n
}

// inText returns what a port adds, with S, L, X, and E and A by endpoint, for its digests.
func (r portRules) inText(p model.ServicePort) string {
	var b strings.Builder
	for _, vip := range slices.SortedFunc(maps.Keys(r.vips), netip.Addr.Compare) {
		for _, rule := range r.vips[vip] {
			fmt.Fprintf(&b, "vip %s: %s\n", vip, rule)
		}
	}
	for _, rule := range r.nodePort {
		fmt.Fprintf(&b, "nodePort: %s\n", rule)
	}
	for _, c := range slices.Sorted(maps.Keys(r.chains)) {
		for _, rule := range r.chains[c] {
			fmt.Fprintf(&b, "%s: %s\n", c, rule)
		}
	}
	for _, m := range r.members {
		fmt.Fprintf(&b, "%s: %s\n", m.set, m.entry)
	}
	for _, s := range r.affinity {
		fmt.Fprintf(&b, "clients: %s\n", s)
	}
	words := []string{model.Digest(p.Name.String()), "web"}
	for _, e := range slices.Concat(p.Cluster, p.Local) {
		words = append(words, model.Digest(p.Name.String()+" "+e.String()), "{"+e.String()+"}")
	}
	return strings.NewReplacer(words...).Replace(b.String())
}

// tenNet recognises local pods by their address.
var tenNet = model.LocalSource{CIDR: netip.MustParsePrefix("10.244.1.0/24")}

// goldenPorts are usual Services and their rules. Each virtual IP is in VIP, each ClusterIP also in
// ACTIVE and CIP: only the first case shows that.
var goldenPorts = map[string]struct {
	globals model.Globals
	port    model.ServicePort
	want    string
}{
	"two endpoints of a ClusterIP": {
		port: model.ServicePort{
			Name: named(model.TCP), Port: 80, ClusterIPs: addrs("10.96.0.1"), HasEndpoints: true,
			Cluster: endpoints("10.244.1.1:8080 10.244.2.1:8080"), Hairpin: endpoints("10.244.1.1:8080"),
		},
		want: `
vip 10.96.0.1: -d 10.96.0.1/32 -p tcp --dport 80 -m statistic --mode random --probability 0.50000000000 -j DNAT --to-destination 10.244.1.1:8080
vip 10.96.0.1: -d 10.96.0.1/32 -p tcp --dport 80 -j DNAT --to-destination 10.244.2.1:8080
VIP: 10.96.0.1
ACTIVE: 10.96.0.1
CIP: 10.96.0.1,TCP:80
HAIRPIN: 10.244.1.1,TCP:8080,10.244.1.1
`,
	},
	"four endpoints in IPv6": {
		globals: model.Globals{Family: model.IPv6},
		port: model.ServicePort{
			Name: named(model.UDP), Port: 53, ClusterIPs: addrs("fd00::1 fd00::2"), HasEndpoints: true,
			Cluster: endpoints("[fd01::1]:53 [fd01::2]:53 [fd01::3]:53 [fd01::4]:53"),
		},
		want: `
vip fd00::1: -d fd00::1/128 -p udp --dport 53 -g CIPA-S-web
vip fd00::2: -d fd00::2/128 -p udp --dport 53 -g CIPA-S-web
CIPA-S-web: -p udp -m statistic --mode random --probability 0.25000000000 -j DNAT --to-destination [fd01::1]:53
CIPA-S-web: -p udp -m statistic --mode random --probability 0.33333333333 -j DNAT --to-destination [fd01::2]:53
CIPA-S-web: -p udp -m statistic --mode random --probability 0.50000000000 -j DNAT --to-destination [fd01::3]:53
CIPA-S-web: -p udp -j DNAT --to-destination [fd01::4]:53
`,
	},
	"weights of a ClusterIP, one of them none": {
		port: model.ServicePort{
			Name: named(model.TCP), Port: 80, ClusterIPs: addrs("10.96.0.1"), HasEndpoints: true, Weights: goldenWeights,
			Cluster: endpoints("10.244.1.1:8080 10.244.1.2:8080 10.244.1.3:8080"),
		},
		want: `
vip 10.96.0.1: -d 10.96.0.1/32 -p tcp --dport 80 -m statistic --mode random --probability 0.75000000000 -j DNAT --to-destination 10.244.1.1:8080
vip 10.96.0.1: -d 10.96.0.1/32 -p tcp --dport 80 -j DNAT --to-destination 10.244.1.3:8080
`,
	},
	"weights in IPv6, although the port asks for turns": {
		globals: model.Globals{Family: model.IPv6},
		port: model.ServicePort{
			Name: named(model.UDP), Port: 53, ClusterIPs: addrs("fd00::1"), HasEndpoints: true, Scheduler: model.WeightedRoundRobin, Weights: goldenWeights,
			Cluster: endpoints("[fd01::1]:53 [fd01::2]:53"),
		},
		want: `
vip fd00::1: -d fd00::1/128 -p udp --dport 53 -m statistic --mode random --probability 0.66666666667 -j DNAT --to-destination [fd01::1]:53
vip fd00::1: -d fd00::1/128 -p udp --dport 53 -j DNAT --to-destination [fd01::2]:53
`,
	},
	"a scheduler that iptables does not have": {
		port: model.ServicePort{
			Name: named(model.TCP), Port: 80, ClusterIPs: addrs("10.96.0.1"), HasEndpoints: true, Scheduler: model.MaglevHashing,
			Cluster: endpoints("10.244.1.1:80 10.244.2.1:80"),
		},
		want: `
vip 10.96.0.1: -d 10.96.0.1/32 -p tcp --dport 80 -m statistic --mode random --probability 0.50000000000 -j DNAT --to-destination 10.244.1.1:80
vip 10.96.0.1: -d 10.96.0.1/32 -p tcp --dport 80 -j DNAT --to-destination 10.244.2.1:80
`,
	},
	"no endpoints anywhere": {
		port: model.ServicePort{
			Name: named(model.TCP), Port: 80, NodePort: 30080, ClusterIPs: addrs("10.96.0.1"), LoadBalancerIPs: addrs("1.2.3.4"),
			SourceRanges: prefixesOf("10.0.0.0/8"),
		},
		want: `
NOEP: 10.96.0.1,TCP:80
NOEP: 1.2.3.4,TCP:80
NOEP-TCP: 30080
`,
	},
	"a load balancer, policy Cluster": {
		port: model.ServicePort{
			Name: named(model.TCP), Port: 443, NodePort: 30443, ClusterIPs: addrs("10.96.0.1"), LoadBalancerIPs: addrs("1.2.3.4"),
			ExternalIPs: addrs("9.9.9.9"), SourceRanges: prefixesOf("10.0.0.0/8 11.0.0.1/32"), HasEndpoints: true,
			Cluster: endpoints("10.244.1.1:8443"),
		},
		want: `
vip 1.2.3.4: -d 1.2.3.4/32 -p tcp --dport 443 -g CIPA-X-web
vip 9.9.9.9: -d 9.9.9.9/32 -p tcp --dport 443 -g CIPA-X-web
vip 10.96.0.1: -d 10.96.0.1/32 -p tcp --dport 443 -g CIPA-S-web
nodePort: -p tcp --dport 30443 -g CIPA-X-web
CIPA-S-web: -p tcp -j DNAT --to-destination 10.244.1.1:8443
CIPA-X-web: -j MARK --or-mark 0x4000
CIPA-X-web: -g CIPA-S-web
LBFW: 1.2.3.4,TCP:443
LBOK: 1.2.3.4,TCP:443,10.0.0.0/8
LBOK: 1.2.3.4,TCP:443,11.0.0.1
`,
	},
	"a load balancer, policy Local, with an endpoint here": {
		globals: model.Globals{LocalSource: tenNet},
		port: model.ServicePort{
			Name: named(model.TCP), Port: 443, ClusterIPs: addrs("10.96.0.1"), LoadBalancerIPs: addrs("1.2.3.4"), ExternalLocal: true,
			HealthCheckNodePort: 32000, HasEndpoints: true,
			Cluster: endpoints("10.244.1.1:8443 10.244.2.1:8443"), Local: endpoints("10.244.1.1:8443"),
		},
		want: `
vip 1.2.3.4: -d 1.2.3.4/32 -p tcp --dport 443 -g CIPA-X-web
vip 10.96.0.1: -d 10.96.0.1/32 -p tcp --dport 443 -g CIPA-S-web
CIPA-L-web: -p tcp -j DNAT --to-destination 10.244.1.1:8443
CIPA-S-web: -p tcp -m statistic --mode random --probability 0.50000000000 -j DNAT --to-destination 10.244.1.1:8443
CIPA-S-web: -p tcp -j DNAT --to-destination 10.244.2.1:8443
CIPA-X-web: -s 10.244.1.0/24 -g CIPA-S-web
CIPA-X-web: -m addrtype --src-type LOCAL -j MARK --or-mark 0x4000
CIPA-X-web: -m addrtype --src-type LOCAL -g CIPA-S-web
CIPA-X-web: -g CIPA-L-web
HEALTH: 32000
`,
	},
	"policy Local, with endpoints elsewhere only, in SCTP": {
		port: model.ServicePort{
			Name: named(model.SCTP), Port: 443, NodePort: 30443, ClusterIPs: addrs("10.96.0.1"), LoadBalancerIPs: addrs("1.2.3.4"), ExternalLocal: true,
			HasEndpoints: true, Cluster: endpoints("10.244.2.1:8443"),
		},
		want: `
vip 1.2.3.4: -d 1.2.3.4/32 -p sctp --dport 443 -g CIPA-X-web
vip 10.96.0.1: -d 10.96.0.1/32 -p sctp --dport 443 -g CIPA-S-web
nodePort: -p sctp --dport 30443 -g CIPA-X-web
CIPA-S-web: -p sctp -j DNAT --to-destination 10.244.2.1:8443
CIPA-X-web: -m addrtype --src-type LOCAL -j MARK --or-mark 0x4000
CIPA-X-web: -m addrtype --src-type LOCAL -g CIPA-S-web
NOLOCAL: 1.2.3.4,SCTP:443
NOLOCAL-SCTP: 30443
`,
	},
	"internal policy Local, nothing here": {
		port: model.ServicePort{
			Name: named(model.UDP), Port: 53, ClusterIPs: addrs("10.96.0.1"), InternalLocal: true, HasEndpoints: true,
		},
		want: `
NOLOCAL: 10.96.0.1,UDP:53
`,
	},
	"affinity": {
		port: model.ServicePort{
			Name: named(model.TCP), Port: 80, ClusterIPs: addrs("10.96.0.1"), AffinitySeconds: 90, HasEndpoints: true,
			Cluster: endpoints("10.244.1.1:80 10.244.2.1:80"),
		},
		want: `
vip 10.96.0.1: -d 10.96.0.1/32 -p tcp --dport 80 -g CIPA-S-web
CIPA-E-{10.244.2.1:80}: -j SET --add-set CIPA-4-A-{10.244.2.1:80} src --exist --timeout 90
CIPA-E-{10.244.2.1:80}: -p tcp -j DNAT --to-destination 10.244.2.1:80
CIPA-E-{10.244.1.1:80}: -j SET --add-set CIPA-4-A-{10.244.1.1:80} src --exist --timeout 90
CIPA-E-{10.244.1.1:80}: -p tcp -j DNAT --to-destination 10.244.1.1:80
CIPA-S-web: -m set --match-set CIPA-4-A-{10.244.1.1:80} src -g CIPA-E-{10.244.1.1:80}
CIPA-S-web: -m set --match-set CIPA-4-A-{10.244.2.1:80} src -g CIPA-E-{10.244.2.1:80}
CIPA-S-web: -m statistic --mode random --probability 0.50000000000 -g CIPA-E-{10.244.1.1:80}
CIPA-S-web: -g CIPA-E-{10.244.2.1:80}
clients: CIPA-4-A-{10.244.1.1:80}
clients: CIPA-4-A-{10.244.2.1:80}
`,
	},
}

var goldenWeights = model.Weights{
	netip.MustParseAddrPort("10.244.1.1:8080"): 3, netip.MustParseAddrPort("10.244.1.2:8080"): 0, netip.MustParseAddrPort("[fd01::1]:53"): 2,
}

func TestRulesOfPorts(t *testing.T) {
	for name, tc := range goldenPorts {
		t.Run(name, func(t *testing.T) {
			g := complete(tc.globals)
			got := "\n" + renderPort(portGlobalsOf(g), tc.port).inText(tc.port)
			if !strings.Contains(tc.want, "\nVIP: ") {
				got = regexp.MustCompile(`(?m)^(VIP|ACTIVE|CIP): .*\n`).ReplaceAllString(got, "")
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// complete fills up what a test does not care for.
func complete(g model.Globals) model.Globals {
	if g.Family == 0 {
		g.Family = model.IPv4
	}
	g.MasqueradeBit = 14
	return g
}

// goldenStatic are the chains that exist always.
var goldenStatic = map[string]struct {
	globals model.Globals
	facts   facts
	want    string
}{
	"nothing but ClusterIPs": {
		globals: model.Globals{NodePortAny: true, LocalSource: tenNet, Ranges: prefixesOf("10.96.0.0/16")},
		want: `
CIPA-SERVICES: ! -s 10.244.1.0/24 -m set --match-set CIPA-4-CIP dst,dst -j MARK --or-mark 0x4000
CIPA-SERVICES: -j CIPA-VIPS
CIPA-POSTROUTING: -m mark --mark 0x4000/0x4000 -j CIPA-MASQUERADE
CIPA-POSTROUTING: -m set --match-set CIPA-4-HAIRPIN dst,dst,src -m conntrack --ctstate DNAT -j MASQUERADE --random-fully
CIPA-MASQUERADE: -j MARK --xor-mark 0x4000
CIPA-MASQUERADE: -j MASQUERADE --random-fully
CIPA-INPUT: -m conntrack --ctstate NEW -m conntrack ! --ctstate DNAT -j CIPA-NEW
CIPA-FORWARD: -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
CIPA-FORWARD: -m conntrack --ctstate NEW -m conntrack ! --ctstate DNAT -j CIPA-NEW
CIPA-FORWARD: -m conntrack --ctstate INVALID -j DROP
CIPA-FORWARD: -m mark --mark 0x4000/0x4000 -j ACCEPT
CIPA-FORWARD: -m conntrack --ctstate DNAT -m conntrack --ctstate SNAT -j ACCEPT
CIPA-OUTPUT: -m conntrack --ctstate NEW -m conntrack ! --ctstate DNAT -j CIPA-NEW
CIPA-NEW: -m set --match-set CIPA-4-VIP dst -j CIPA-VIP-FILTER
CIPA-NEW: -d 10.96.0.0/16 -m set ! --match-set CIPA-4-ALLOC dst -m addrtype ! --dst-type LOCAL -j DROP
CIPA-VIP-FILTER: -m set --match-set CIPA-4-LBFW dst,dst -j DROP
CIPA-VIP-FILTER: -p tcp -m set --match-set CIPA-4-NOEP dst,dst -j REJECT --reject-with tcp-reset
CIPA-VIP-FILTER: -m set --match-set CIPA-4-NOEP dst,dst -j REJECT
CIPA-VIP-FILTER: -m set --match-set CIPA-4-NOLOCAL dst,dst -j DROP
CIPA-VIP-FILTER: -p tcp -m set --match-set CIPA-4-ACTIVE dst -m addrtype ! --dst-type LOCAL -j REJECT --reject-with tcp-reset
CIPA-VIP-FILTER: -m set --match-set CIPA-4-ACTIVE dst -m addrtype ! --dst-type LOCAL -j REJECT
CIPA-NODEPORT-FILTER: -p tcp -m set --match-set CIPA-4-NOEP-TCP dst -j REJECT --reject-with tcp-reset
CIPA-NODEPORT-FILTER: -p tcp -m set --match-set CIPA-4-NOLOCAL-TCP dst -j DROP
CIPA-NODEPORT-FILTER: -p udp -m set --match-set CIPA-4-NOEP-UDP dst -j REJECT
CIPA-NODEPORT-FILTER: -p udp -m set --match-set CIPA-4-NOLOCAL-UDP dst -j DROP
CIPA-NODEPORT-FILTER: -p sctp -m set --match-set CIPA-4-NOEP-SCTP dst -j REJECT
CIPA-NODEPORT-FILTER: -p sctp -m set --match-set CIPA-4-NOLOCAL-SCTP dst -j DROP
`,
	},
	"everything there is": {
		globals: model.Globals{
			NodePortAny: true, LocalhostNodePorts: true, KeepInvalid: true, MasqueradeAll: true,
		},
		facts: facts{nodePorts: true, firewalled: true, health: true},
		want: `
CIPA-SERVICES: -m set --match-set CIPA-4-LBFW dst,dst -m set ! --match-set CIPA-4-LBOK dst,dst,src -j RETURN
CIPA-SERVICES: -m set --match-set CIPA-4-CIP dst,dst -j MARK --or-mark 0x4000
CIPA-SERVICES: -j CIPA-VIPS
CIPA-SERVICES: -m addrtype --dst-type LOCAL -j CIPA-NODEPORTS
CIPA-INPUT: ! -s 127.0.0.0/8 -d 127.0.0.0/8 -m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT -j DROP
CIPA-INPUT: -p tcp -m set --match-set CIPA-4-HEALTH dst -j ACCEPT
CIPA-INPUT: -m conntrack --ctstate NEW -m conntrack ! --ctstate DNAT -j CIPA-NEW
CIPA-INPUT: -m conntrack --ctstate NEW -m conntrack ! --ctstate DNAT -m addrtype --dst-type LOCAL -j CIPA-NODEPORT-FILTER
CIPA-FORWARD: -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
CIPA-FORWARD: -m conntrack --ctstate NEW -m conntrack ! --ctstate DNAT -j CIPA-NEW
CIPA-FORWARD: -m mark --mark 0x4000/0x4000 -j ACCEPT
CIPA-FORWARD: -m conntrack --ctstate DNAT -m conntrack --ctstate SNAT -j ACCEPT
`,
	},
	"node ports not at loopback, pods by a bridge": {
		globals: model.Globals{NodePortAny: true, LocalSource: model.LocalSource{Interface: "br0"}},
		facts:   facts{nodePorts: true},
		want: `
CIPA-SERVICES: ! -i br0 -m set --match-set CIPA-4-CIP dst,dst -j MARK --or-mark 0x4000
CIPA-SERVICES: -j CIPA-VIPS
CIPA-SERVICES: ! -d 127.0.0.0/8 -m addrtype --dst-type LOCAL -j CIPA-NODEPORTS
CIPA-INPUT: -m conntrack --ctstate NEW -m conntrack ! --ctstate DNAT -j CIPA-NEW
CIPA-INPUT: ! -d 127.0.0.0/8 -m conntrack --ctstate NEW -m conntrack ! --ctstate DNAT -m addrtype --dst-type LOCAL -j CIPA-NODEPORT-FILTER
`,
	},
	"node ports at two addresses, one of them loopback": {
		globals: model.Globals{NodePortAddrs: addrs("127.0.0.7 192.168.0.1"), LocalSource: model.LocalSource{InterfacePrefix: "veth"}},
		facts:   facts{nodePorts: true},
		want: `
CIPA-SERVICES: ! -i veth+ -m set --match-set CIPA-4-CIP dst,dst -j MARK --or-mark 0x4000
CIPA-SERVICES: -j CIPA-VIPS
CIPA-SERVICES: -d 127.0.0.7/32 -j CIPA-NODEPORTS
CIPA-SERVICES: -d 192.168.0.1/32 -j CIPA-NODEPORTS
CIPA-INPUT: ! -s 127.0.0.0/8 -d 127.0.0.0/8 -m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT -j DROP
CIPA-INPUT: -m conntrack --ctstate NEW -m conntrack ! --ctstate DNAT -j CIPA-NEW
CIPA-INPUT: -d 127.0.0.7/32 -m conntrack --ctstate NEW -m conntrack ! --ctstate DNAT -j CIPA-NODEPORT-FILTER
CIPA-INPUT: -d 192.168.0.1/32 -m conntrack --ctstate NEW -m conntrack ! --ctstate DNAT -j CIPA-NODEPORT-FILTER
`,
	},
	"IPv6 never serves node ports at loopback": {
		globals: model.Globals{Family: model.IPv6, NodePortAny: true, LocalhostNodePorts: true, Ranges: prefixesOf("fd00::/112 fd01::/112")},
		facts:   facts{nodePorts: true},
		want: `
CIPA-SERVICES: -j CIPA-VIPS
CIPA-SERVICES: ! -d ::1/128 -m addrtype --dst-type LOCAL -j CIPA-NODEPORTS
CIPA-INPUT: -m conntrack --ctstate NEW -m conntrack ! --ctstate DNAT -j CIPA-NEW
CIPA-INPUT: ! -d ::1/128 -m conntrack --ctstate NEW -m conntrack ! --ctstate DNAT -m addrtype --dst-type LOCAL -j CIPA-NODEPORT-FILTER
CIPA-NEW: -m set --match-set CIPA-6-VIP dst -j CIPA-VIP-FILTER
CIPA-NEW: -d fd00::/112 -m set ! --match-set CIPA-6-ALLOC dst -m addrtype ! --dst-type LOCAL -j DROP
CIPA-NEW: -d fd01::/112 -m set ! --match-set CIPA-6-ALLOC dst -m addrtype ! --dst-type LOCAL -j DROP
`,
	},
}

// TestStaticRules compares only the chains that a case names.
func TestStaticRules(t *testing.T) {
	for name, tc := range goldenStatic {
		t.Run(name, func(t *testing.T) {
			g := complete(tc.globals)
			chains := staticChains(g, tc.facts)
			var got strings.Builder
			got.WriteByte('\n')
			for _, c := range []chain{
				{nat, chainServices}, {nat, chainPostrouting}, {nat, chainMasquerade}, {filter, chainInput},
				{filter, chainForward}, {filter, chainOutput}, {filter, chainNew}, {filter, chainVIPFilter}, {filter, chainPortsFilter},
			} {
				for _, rule := range chains[c] {
					if strings.Contains(tc.want, "\n"+c.name+": ") {
						fmt.Fprintf(&got, "%s: %s\n", c.name, rule)
					}
				}
			}
			if diff := cmp.Diff(tc.want, got.String()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestTransactionText pins the order: declarations, jumps to go, rules, new jumps, chains to go.
func TestTransactionText(t *testing.T) {
	tx := Transaction{
		write: map[chain][]string{
			{nat, "CIPA-B"}: {"-j CIPA-A", "-j RETURN"}, {nat, "CIPA-A"}: {"-j ACCEPT"}, {nat, "CIPA-EMPTY"}: nil, {filter, "CIPA-F"}: {"-j DROP"},
		},
		remove: []chain{{nat, "CIPA-Z"}, {nat, "CIPA-AB"}},
		insert: []jump{{nat, "OUTPUT", "-j CIPA-A"}},
		unhook: []jump{{nat, "INPUT", "-j CIPA-Z"}, {filter, "INPUT", `-m comment --comment "a b" -j CIPA-F`}},
	}
	const want = `*filter
:CIPA-F - [0:0]
-D INPUT -m comment --comment "a b" -j CIPA-F
-A CIPA-F -j DROP
COMMIT
*nat
:CIPA-A - [0:0]
:CIPA-AB - [0:0]
:CIPA-B - [0:0]
:CIPA-EMPTY - [0:0]
:CIPA-Z - [0:0]
-D INPUT -j CIPA-Z
-A CIPA-A -j ACCEPT
-A CIPA-B -j CIPA-A
-A CIPA-B -j RETURN
-I OUTPUT 1 -j CIPA-A
-X CIPA-AB
-X CIPA-Z
COMMIT
`
	if diff := cmp.Diff(want, string(tx.Text())); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if tx.Empty() || !(Transaction{write: map[chain][]string{}}).Empty() {
		t.Error("Empty() is wrong about one of two transactions")
	}
}

// TestAffinityIsBounded limits the sets that EndpointSlices can use up.
func TestAffinityIsBounded(t *testing.T) {
	r := NewRuleset(model.IPv4)
	port := func(name string, number uint16, endpoints int) *model.ServicePort {
		p := model.ServicePort{
			Name: plans.Name(), Port: number, ClusterIPs: addrs("10.96.0.1"), AffinitySeconds: 60, HasEndpoints: true, Cluster: plans.Endpoints(model.IPv4, endpoints),
		}
		p.Name.Port = name
		return &p
	}
	g := complete(model.Globals{})
	sets := func(d model.Delta) int {
		t.Helper()
		r.Apply(d)
		checkTargets(t, r)
		return len(r.affinity)
	}
	large, largest := port("large", 80, mostAffinityEndpoints+1), port("large", 80, mostAffinityEndpoints)
	all, gone := map[model.PortName]*model.ServicePort{}, map[model.PortName]*model.ServicePort{}
	for i := range 2 * mostAffinitySets / mostAffinityEndpoints {
		p := port(fmt.Sprint("p", i), 81+uint16(i), mostAffinityEndpoints)
		all[p.Name], gone[p.Name] = p, nil
	}
	const half = mostAffinitySets / 2 / mostAffinityEndpoints * mostAffinityEndpoints
	for _, step := range []struct {
		what  string
		delta model.Delta
		want  int
	}{
		{"too many endpoints", model.Delta{Globals: &g, Ports: map[model.PortName]*model.ServicePort{large.Name: large}}, 0},
		{"as many as may be", model.Delta{Ports: map[model.PortName]*model.ServicePort{large.Name: largest}}, mostAffinityEndpoints},
		{"too many ports of one namespace", model.Delta{Ports: all}, half},
		{"few again", model.Delta{Ports: gone}, mostAffinityEndpoints},
	} {
		if got := sets(step.delta); got != step.want {
			t.Errorf("%s: there are %d sets, want %d", step.what, got, step.want)
		}
	}
	once, again := NewRuleset(model.IPv4), NewRuleset(model.IPv4)
	for _, fresh := range []*Ruleset{once, again} {
		fresh.Apply(model.Delta{Globals: &g, Ports: all})
	}
	if !maps.Equal(once.affinity, again.affinity) {
		t.Error("an agent that starts anew gives session affinity to other ports")
	}
}

// TestANamespaceLeavesAffinityToOthers is a tenant whose Services come first by name and in time,
// and want more sets than there are.
func TestANamespaceLeavesAffinityToOthers(t *testing.T) {
	const endpoints = 100
	g := complete(model.Globals{})
	ports := func(n int, namespace string) map[model.PortName]*model.ServicePort {
		all := map[model.PortName]*model.ServicePort{}
		for i := range n {
			p := model.ServicePort{
				Name: plans.Name(), Port: uint16(i + 1), ClusterIPs: addrs("fd00:96::1"), AffinitySeconds: 60, HasEndpoints: true,
				Cluster: plans.Endpoints(model.IPv6, endpoints),
			}
			p.Name.Service.Namespace, p.Name.Port = namespace, fmt.Sprint("p", i)
			all[p.Name] = &p
		}
		return all
	}
	greedy, modest, late := ports(1000, "a-tenant"), ports(30, "web"), ports(20, "zoo")
	served := func(r *Ruleset, ports map[model.PortName]*model.ServicePort) (n int) {
		for name := range ports {
			if !slices.Contains(r.without[name], model.AffinityTooDear) {
				n++
			}
		}
		return n
	}
	atOnce := maps.Clone(greedy)
	maps.Copy(atOnce, modest)
	for what, first := range map[string]map[model.PortName]*model.ServicePort{"before": greedy, "at once": atOnce} {
		r := NewRuleset(model.IPv6)
		r.Apply(model.Delta{Globals: &g, Ports: first})
		r.Apply(model.Delta{Ports: modest})
		r.Apply(model.Delta{Ports: late})
		if n := served(r, modest) + served(r, late); n != len(modest)+len(late) {
			t.Errorf("greedy %s: %d of %d ports of other namespaces have session affinity", what, n, len(modest)+len(late))
		}
		if n, want := served(r, greedy), mostAffinitySets/endpoints/2; n > want || n < want-1 {
			t.Errorf("greedy %s: %d of its ports have session affinity, want about %d", what, n, want)
		}
		gone := map[model.PortName]*model.ServicePort{}
		for _, ports := range []map[model.PortName]*model.ServicePort{greedy, modest, late} {
			for name := range ports {
				gone[name] = nil
			}
		}
		r.Apply(model.Delta{Ports: gone})
		if len(r.shares) > 0 {
			t.Errorf("greedy %s: without ports namespaces have %v", what, r.shares)
		}
	}
}
