package trace

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// tcp is a packet from src to dst. The node sends what comes from its addresses, pods and others are behind their interfaces.
func tcp(src, dst string) Packet {
	p := Packet{Protocol: model.TCP, Src: netip.MustParseAddr(src), Dst: netip.MustParseAddrPort(dst)}
	w := &fakeNode{}
	if local, _ := w.Local(p.Src); !local {
		p.In, _ = w.Route(Packet{Dst: netip.AddrPortFrom(p.Src, 0)}, 0)
	}
	return p
}

func udp(src, dst string) Packet {
	p := tcp(src, dst)
	p.Protocol = model.UDP
	return p
}

const (
	pod      = "10.244.1.2"
	node     = "192.168.0.1"
	outsider = "198.51.100.7"
)

// verdicts walks and returns the lines of the verdict.
func verdicts(t *testing.T, p Packet, rules string, w Node) []string {
	t.Helper()
	text := walked(t, p, rules, w).verdict()
	return strings.Split(strings.TrimSpace(text), "\n")
}

func walked(t *testing.T, p Packet, rules string, w Node) Path {
	t.Helper()
	r, err := Parse(rules)
	if err != nil {
		t.Fatal(err)
	}
	path, err := Walk(p, r, w)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("\n%s", path)
	return path
}

// nat and filter are tables with the built-in chains and rules.
func nat(rules ...string) string {
	return "*nat\n:PREROUTING ACCEPT [0:0]\n:INPUT ACCEPT [0:0]\n:OUTPUT ACCEPT [0:0]\n:POSTROUTING ACCEPT [0:0]\n" +
		strings.Join(rules, "\n") + "\nCOMMIT\n"
}

func filter(rules ...string) string {
	return "*filter\n:INPUT ACCEPT [0:0]\n:FORWARD ACCEPT [0:0]\n:OUTPUT ACCEPT [0:0]\n" + strings.Join(rules, "\n") + "\nCOMMIT\n"
}

const threeEndpoints = `
-A PREROUTING -j CIPA-SERVICES
-A OUTPUT -j CIPA-SERVICES
-A POSTROUTING -j CIPA-POSTROUTING
-A CIPA-SERVICES -j CIPA-VIPS
-A CIPA-VIPS ! -s 10.244.0.0/16 -m set --match-set CIPA-4-CIP dst,dst -j MARK --set-xmark 0x4000/0x4000
-A CIPA-VIPS -d 10.96.0.1/32 -p tcp -m tcp --dport 80 -g CIPA-S-ABC
-A CIPA-S-ABC -p tcp -m statistic --mode random --probability 0.33333333349 -j DNAT --to-destination 10.244.1.3:8080
-A CIPA-S-ABC -p tcp -m statistic --mode random --probability 0.50000000000 -j DNAT --to-destination 10.244.1.4:8080
-A CIPA-S-ABC -p tcp -j DNAT --to-destination 10.244.2.5:8080
-A CIPA-POSTROUTING -m mark --mark 0x4000/0x4000 -j CIPA-MASQUERADE
-A CIPA-POSTROUTING -m set --match-set CIPA-4-HAIRPIN dst,dst,src -m conntrack --ctstate DNAT -j MASQUERADE --random-fully
-A CIPA-MASQUERADE -j MARK --set-xmark 0x4000/0x0
-A CIPA-MASQUERADE -j MASQUERADE --random-fully`

func clusterSets() *fakeNode {
	return (&fakeNode{}).set("CIPA-4-CIP", "hash:ip,port", "10.96.0.1,tcp:80").
		set("CIPA-4-HAIRPIN", "hash:ip,port,ip", "10.244.1.3,tcp:8080,10.244.1.3")
}

func TestAServiceIsTracedToItsEndpoints(t *testing.T) {
	for name, tc := range map[string]struct {
		packet Packet
		want   []string
	}{
		"from a pod": {tcp(pod, "10.96.0.1:80"), []string{
			"Verdict: goes to 10.244.1.3:8080 (1/3), 10.244.1.4:8080 (1/3) or 10.244.2.5:8080 (1/3), with its own source",
		}},
		"from the node": {tcp(node, "10.96.0.1:80"), []string{
			"Verdict: goes to 10.244.1.3:8080 (1/3), 10.244.1.4:8080 (1/3) or 10.244.2.5:8080 (1/3), with the node's address",
		}},
		"from outside": {tcp(outsider, "10.96.0.1:80"), []string{
			"Verdict: goes to 10.244.1.3:8080 (1/3), 10.244.1.4:8080 (1/3) or 10.244.2.5:8080 (1/3), with the node's address",
		}},
		"from an endpoint to itself": {tcp("10.244.1.3", "10.96.0.1:80"), []string{
			"Verdict: goes to 10.244.1.4:8080 (1/3) or 10.244.2.5:8080 (1/3), with its own source",
			"     or: goes to 10.244.1.3:8080 (1/3), with the node's address",
		}},
		"another port":     {tcp(pod, "10.96.0.1:81"), []string{"Verdict: goes to 10.96.0.1:81, not touched by any rule"}},
		"another protocol": {udp(pod, "10.96.0.1:80"), []string{"Verdict: goes to 10.96.0.1:80, not touched by any rule"}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, verdicts(t, tc.packet, nat(threeEndpoints), clusterSets())); diff != "" {
				t.Errorf("verdict (-want +got):\n%s", diff)
			}
		})
	}
}

func TestThePathTellsEveryRuleThatMatched(t *testing.T) {
	rules := nat("-A PREROUTING -j TOP", "-A TOP -d 10.96.0.1/32 -j DOWN", "-A TOP -j LOG --log-prefix \"-j DROP \"",
		"-A DOWN -p udp -j ACCEPT",
		"-A DOWN -p tcp -m statistic --mode random --probability 0.25 -j DNAT --to-destination 10.244.1.3",
		"-A POSTROUTING -d 10.244.1.3/32 -j SNAT --to-source 192.168.0.1") +
		filter("-A FORWARD -i cni0 -o cni0 -j ACCEPT", "-A FORWARD -o eth0 -j DROP")
	want := `A new TCP connection from 10.244.1.2 to 10.96.0.1:80, coming in by cni0
nat PREROUTING, to 10.96.0.1:80
  -A PREROUTING -j TOP
    -A TOP -d 10.96.0.1/32 -j DOWN
      -A DOWN -p tcp -m statistic --mode random --probability 0.25 -j DNAT --to-destination 10.244.1.3
            > 1/4 of all
            > goes to 10.244.1.3:80
    -A TOP -j LOG --log-prefix "-j DROP "
          > 3/4 of all
          > is logged
filter FORWARD, to 10.244.1.3:80, 10.96.0.1:80
  -A FORWARD -i cni0 -o cni0 -j ACCEPT
        > those to 10.244.1.3:80
        > 1/4 of all
  -A FORWARD -o eth0 -j DROP
        > 3/4 of all
nat POSTROUTING, to 10.244.1.3:80
  -A POSTROUTING -d 10.244.1.3/32 -j SNAT --to-source 192.168.0.1
        > 1/4 of all
        > leaves with the source 192.168.0.1
Verdict: goes to 10.244.1.3:80 (1/4), with the source 192.168.0.1
     or: dropped (3/4) by -A FORWARD -o eth0 -j DROP
`
	if diff := cmp.Diff(want, walked(t, tcp(pod, "10.96.0.1:80"), rules, &fakeNode{}).String()); diff != "" {
		t.Errorf("path (-want +got):\n%s", diff)
	}
}

// A goto comes back to the rule after the last jump, and with none before it to the policy.
func TestJumpsAndGotosComeBackWhereTheKernelDoes(t *testing.T) {
	const drop = " -j DROP"
	for name, tc := range map[string]struct {
		rules []string
		want  string
	}{
		"a jump comes back": {
			[]string{"-A FORWARD -j A", "-A FORWARD" + drop, "-A A -p udp -j ACCEPT"}, "dropped by -A FORWARD -j DROP",
		},
		"a goto does not": {[]string{"-A FORWARD -g A", "-A FORWARD" + drop, "-A A -p udp -j ACCEPT"}, "goes to"},
		"a goto to the last jump": {
			[]string{"-A FORWARD -j A", "-A FORWARD -j REJECT", "-A A -g B", "-A A" + drop, "-A B -p udp -j DROP"}, "refused",
		},
		"a return ends a chain": {[]string{"-A FORWARD -j A", "-A FORWARD -j REJECT", "-A A -j RETURN", "-A A" + drop}, "refused"},
		"a return below a goto": {
			[]string{"-A FORWARD -j A", "-A FORWARD -j REJECT", "-A A -g B", "-A A" + drop, "-A B -j RETURN"}, "refused",
		},
		"a return of a built-in chain": {[]string{"-A FORWARD -j RETURN", "-A FORWARD" + drop}, "goes to"},
		"accept ends the table":        {[]string{"-A FORWARD -j A", "-A FORWARD" + drop, "-A A -j ACCEPT"}, "goes to"},
		"the policy is last": {
			[]string{":FORWARD DROP [0:0]", "-A FORWARD -p udp -j ACCEPT"}, "dropped by the policy of filter FORWARD",
		},
		"the policy of an empty chain": {[]string{":FORWARD DROP [0:0]"}, "dropped by the policy of filter FORWARD"},
		"not after accept":             {[]string{":FORWARD DROP [0:0]", "-A FORWARD -j ACCEPT"}, "goes to"},
	} {
		t.Run(name, func(t *testing.T) {
			got := verdicts(t, tcp(pod, "10.9.9.9:80"), filter(tc.rules...), &fakeNode{})
			if len(got) != 1 || !strings.HasPrefix(got[0], "Verdict: "+tc.want) {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

// Each table gets one rule that marks, so that the order is seen; INPUT, FORWARD and OUTPUT accept what all before have marked.
func TestPacketsMeetTheChainsOfTheKernel(t *testing.T) {
	var all strings.Builder
	for table, chains := range map[string]string{
		"raw": "PREROUTING OUTPUT", "mangle": "PREROUTING INPUT FORWARD OUTPUT POSTROUTING", "nat": "PREROUTING INPUT OUTPUT POSTROUTING",
		"filter": "INPUT FORWARD OUTPUT", "security": "INPUT FORWARD OUTPUT",
	} {
		fmt.Fprintf(&all, "*%s\n", table)
		for c := range strings.FieldsSeq(chains) {
			fmt.Fprintf(&all, ":%s ACCEPT [0:0]\n-A %s -j LOG\n", c, c)
		}
	}
	for name, tc := range map[string]struct {
		packet Packet
		want   string
	}{
		"through": {tcp(pod, "10.9.9.9:80"), "raw PREROUTING, mangle PREROUTING, nat PREROUTING, mangle FORWARD, filter FORWARD, " +
			"security FORWARD, mangle POSTROUTING, nat POSTROUTING"},
		"to the node": {tcp(outsider, "192.168.0.1:80"), "raw PREROUTING, mangle PREROUTING, nat PREROUTING, mangle INPUT, filter INPUT, " +
			"security INPUT, nat INPUT"},
		"from the node": {tcp(node, "10.9.9.9:80"), "raw OUTPUT, mangle OUTPUT, nat OUTPUT, filter OUTPUT, security OUTPUT, " +
			"mangle POSTROUTING, nat POSTROUTING"},
		"within the node": {tcp(node, "127.0.0.1:80"), "raw OUTPUT, mangle OUTPUT, nat OUTPUT, filter OUTPUT, security OUTPUT, " +
			"mangle POSTROUTING, nat POSTROUTING, raw PREROUTING, mangle PREROUTING, mangle INPUT, filter INPUT, security INPUT"},
	} {
		t.Run(name, func(t *testing.T) {
			var chains []string
			for _, s := range walked(t, tc.packet, all.String(), &fakeNode{}).Steps {
				if s.Depth == 0 {
					chain, _, _ := strings.Cut(s.Text, ",")
					chains = append(chains, chain)
				}
			}
			if diff := cmp.Diff(tc.want, strings.Join(chains, ", ")); diff != "" {
				t.Errorf("chains (-want +got):\n%s", diff)
			}
		})
	}
}

func TestInterfacesFollowTheWay(t *testing.T) {
	rules := func(chain, match string) string { return filter("-A " + chain + " " + match + " -j DROP") }
	for name, tc := range map[string]struct {
		packet Packet
		rules  string
		drops  bool
	}{
		"in by the pods' bridge": {tcp(pod, "10.9.9.9:80"), rules("FORWARD", "-i cni0"), true},
		"out by another":         {tcp(pod, "10.9.9.9:80"), rules("FORWARD", "-o cni0"), false},
		"names that begin so":    {tcp(pod, "10.9.9.9:80"), rules("FORWARD", "-i cni+ -o eth+"), true},
		"not that one":           {tcp(pod, "10.9.9.9:80"), rules("FORWARD", "! -i cni+"), false},
		"the way after the translation": {
			tcp(pod, "10.9.9.9:80"), nat("-A PREROUTING -j DNAT --to-destination 10.244.1.9") + rules("FORWARD", "-o cni0"), true,
		},
		"OUTPUT sees the way before it": {
			tcp(node, "10.9.9.9:80"), nat("-A OUTPUT -j DNAT --to-destination 10.244.1.9") + rules("OUTPUT", "-o eth0"), true,
		},
		"POSTROUTING the one after it": {
			tcp(node, "10.9.9.9:80"),
			nat("-A OUTPUT -j DNAT --to-destination 10.244.1.9", "-A POSTROUTING -o eth0 -j ACCEPT") + rules("OUTPUT", "-o cni0"), false,
		},
		"the node's own comes from none": {tcp(node, "10.9.9.9:80"), rules("OUTPUT", "! -i eth0"), true},
		"but to itself by the loopback":  {tcp(node, "192.168.0.1:80"), rules("INPUT", "-i lo"), true},
		"translated to the node": {
			tcp(outsider, "10.9.9.9:80"), nat("-A PREROUTING -j DNAT --to-destination 192.168.0.1") + rules("INPUT", "-i eth0"), true,
		},
		"what is for the node leaves not": {tcp(outsider, "192.168.0.1:80"), rules("INPUT", "-o lo"), false},
	} {
		t.Run(name, func(t *testing.T) {
			got := verdicts(t, tc.packet, tc.rules, &fakeNode{})
			if drops := strings.HasPrefix(got[0], "Verdict: dropped"); drops != tc.drops || len(got) != 1 {
				t.Errorf("got %q, want dropped: %t", got, tc.drops)
			}
		})
	}
}

func TestEndsAreTold(t *testing.T) {
	for name, tc := range map[string]struct {
		packet Packet
		rules  string
		want   string
	}{
		"refused": {tcp(pod, "10.9.9.9:80"), filter("-A FORWARD -j REJECT --reject-with icmp-port-unreachable"),
			"refused (icmp-port-unreachable) by -A FORWARD -j REJECT --reject-with icmp-port-unreachable"},
		"untouched":     {tcp(pod, "10.9.9.9:80"), nat(), "goes to 10.9.9.9:80, not touched by any rule"},
		"for the node":  {tcp(outsider, "192.168.0.1:22"), nat(), "goes to 192.168.0.1:22 on this node itself, not touched by any rule"},
		"let through":   {tcp(pod, "10.9.9.9:80"), filter("-A FORWARD -j ACCEPT"), "goes to 10.9.9.9:80, not translated"},
		"without a way": {tcp(pod, "203.0.113.5:80"), nat(), "goes nowhere: no route to 203.0.113.5:80 (there is no route to 203.0.113.5)"},
		"a new port": {
			tcp(pod, "10.9.9.9:80"), nat("-A PREROUTING -p tcp -j DNAT --to-destination :81"), "goes to 10.9.9.9:81, with its own source",
		},
		"a new address": {
			tcp(pod, "10.9.9.9:80"), nat("-A PREROUTING -j DNAT --to-destination 10.9.9.8"), "goes to 10.9.9.8:80, with its own source",
		},
		"one of several": {
			tcp(pod, "10.9.9.9:80"),
			nat("-A PREROUTING -j DNAT --to-destination 10.9.9.1-10.9.9.8"),
			"goes to 10.9.9.1-10.9.9.8 by -A PREROUTING -j DNAT --to-destination 10.9.9.1-10.9.9.8; it is not followed further",
		},
		"redirected": {
			tcp(pod, "10.9.9.9:80"),
			nat("-A PREROUTING -p tcp -j REDIRECT --to-ports 99"),
			"goes to this node itself, port 99 by -A PREROUTING -p tcp -j REDIRECT --to-ports 99; it is not followed further",
		},
		"the node's own, redirected": {tcp(node, "10.9.9.9:80"), nat("-A OUTPUT -p tcp -j REDIRECT --to-ports 99"),
			"goes to 127.0.0.1:99 on this node itself, with its own source"},
		"IPv6": {tcp("fd00:244::2", "[fd00:96::1]:80"),
			nat("-A PREROUTING -d fd00:96::1/128 -p tcp -m tcp --dport 80 -j DNAT --to-destination [fd00:244::3]:8080"),
			"goes to [fd00:244::3]:8080, with its own source"},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff([]string{"Verdict: " + tc.want}, verdicts(t, tc.packet, tc.rules, &fakeNode{})); diff != "" {
				t.Errorf("verdict (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhatCannotBeToldIsSaidAndFollowedBothWays(t *testing.T) {
	for name, tc := range map[string]struct {
		rules string
		want  []string
	}{
		"a match": {filter("-A FORWARD -m geoip --source-country XX -j DROP"), []string{
			"Verdict: goes to 10.9.9.9:80, not touched by any rule",
			"         if -A FORWARD -m geoip --source-country XX -j DROP does not match",
			"     or: dropped by -A FORWARD -m geoip --source-country XX -j DROP",
			"         if -A FORWARD -m geoip --source-country XX -j DROP matches",
		}},
		"that changes nothing": {
			filter("-A FORWARD -m geoip --source-country XX -j LOG", "-A FORWARD -m limit --limit 5/min -j A", "-A A -p udp -j DROP"),
			[]string{"Verdict: goes to 10.9.9.9:80, not touched by any rule"},
		},
		"beside one that decides": {filter("-A FORWARD -p udp -m geoip --source-country XX -j DROP"), []string{
			"Verdict: goes to 10.9.9.9:80, not touched by any rule",
		}},
		"a chain that comes back to the same end": {filter("-A FORWARD -m geoip -j A", "-A FORWARD -j DROP", "-A A -j RETURN"), []string{
			"Verdict: dropped by -A FORWARD -j DROP",
		}},
		"a target": {filter("-A FORWARD -j NFQUEUE --queue-num 1"), []string{
			"Verdict: goes to 10.9.9.9:80, not touched by any rule",
			"         if -A FORWARD -j NFQUEUE --queue-num 1 lets it pass unchanged",
		}},
		"a set that is gone": {filter("-A FORWARD -m set --match-set S dst -j DROP"), []string{
			"Verdict: goes to 10.9.9.9:80, not touched by any rule",
			"         if -A FORWARD -m set --match-set S dst -j DROP does not match",
			"     or: dropped by -A FORWARD -m set --match-set S dst -j DROP",
			"         if -A FORWARD -m set --match-set S dst -j DROP matches",
		}},
		"the source port": {filter("-A FORWARD -p tcp -m tcp --sport 1024:65535 -j DROP"), []string{
			"Verdict: goes to 10.9.9.9:80, not touched by any rule",
			"         if -A FORWARD -p tcp -m tcp --sport 1024:65535 -j DROP does not match",
			"     or: dropped by -A FORWARD -p tcp -m tcp --sport 1024:65535 -j DROP",
			"         if -A FORWARD -p tcp -m tcp --sport 1024:65535 -j DROP matches",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, verdicts(t, tcp(pod, "10.9.9.9:80"), tc.rules, &fakeNode{})); diff != "" {
				t.Errorf("verdict (-want +got):\n%s", diff)
			}
		})
	}
}

func TestStepsSayWhyTheyCannotTell(t *testing.T) {
	rules := filter("-A FORWARD -m set --match-set S dst -j DROP", "-A FORWARD -j NFQUEUE")
	text := walked(t, tcp(pod, "10.9.9.9:80"), rules, &fakeNode{}).String()
	for _, part := range []string{
		"> cannot tell whether it matches (what is in the set S: the set is gone); both are followed\n",
		"> cannot tell what this does; it is passed by\n",
	} {
		if !strings.Contains(text, part) {
			t.Errorf("the text lacks %q", part)
		}
	}
}

// Twenty unknown matches are a million possibilities, but for their ends only twenty-one.
func TestPossibilitiesDoNotMultiplyWithoutNeed(t *testing.T) {
	var rules []string
	for i := range 200 {
		rules = append(rules, fmt.Sprintf("-A FORWARD -m unknown%d -j LOG", i), fmt.Sprintf("-A FORWARD -m unknown%d -j CHAIN", i))
	}
	got := verdicts(t, tcp(pod, "10.9.9.9:80"), filter(append(rules, "-A CHAIN -p udp -j DROP")...), &fakeNode{})
	if diff := cmp.Diff([]string{"Verdict: goes to 10.9.9.9:80, not touched by any rule"}, got); diff != "" {
		t.Errorf("verdict (-want +got):\n%s", diff)
	}
}

func TestEndlessRulesAreAnError(t *testing.T) {
	for name, rules := range map[string]string{
		"a loop":           filter("-A FORWARD -j A", "-A A -j B", "-A B -j A"),
		"a loop of gotos":  filter("-A FORWARD -g A", "-A A -g A"),
		"too many matters": filter(manyMarks()...),
	} {
		t.Run(name, func(t *testing.T) {
			r, err := Parse(rules)
			if err != nil {
				t.Fatal(err)
			}
			if path, err := Walk(tcp(pod, "10.9.9.9:80"), r, &fakeNode{}); err == nil {
				t.Errorf("the walk ended, with %d outcomes", len(path.Outcomes))
			}
		})
	}
}

// manyMarks are rules of which each may change the future in its own way.
func manyMarks() (rules []string) {
	for i := range 30 {
		rules = append(rules, fmt.Sprintf("-A FORWARD -m unknown -j MARK --set-xmark %#x/%#x", 1<<i, 1<<i))
	}
	return rules
}

func TestAThousandEndpointsHaveEachTheirShare(t *testing.T) {
	var rules []string
	for i := range 1000 {
		rules = append(rules, fmt.Sprintf("-A PREROUTING -m statistic --mode random --probability %.11f -j DNAT --to-destination 10.9.%d.%d",
			1/float64(1000-i), i/250, i%250))
	}
	w := (&fakeNode{}).set("H", "hash:ip,port,ip")
	rules = append(rules, "-A POSTROUTING -m set --match-set H dst,dst,src -j MASQUERADE")
	path := walked(t, tcp(pod, "10.96.0.1:80"), nat(rules...), w)
	if len(path.Outcomes) != 1000 {
		t.Fatalf("there are %d outcomes", len(path.Outcomes))
	}
	for _, o := range path.Outcomes {
		if fraction(o.Share) != "1/1000" {
			t.Fatalf("%s has a share of %s", o.Dst, fraction(o.Share))
		}
	}
	if w.asked != 1000 {
		t.Errorf("the set was asked %d times", w.asked)
	}
	if text := path.String(); !strings.Contains(text, "goes to one of 1000:\n           10.9.0.0:80 (1/1000)\n") {
		t.Error("the verdict does not list them")
	}
}

// fakeNode is a node with two pods, as a Node. Its zero value knows no sets.
type fakeNode struct {
	kinds   map[string]string
	entries map[string][]string
	asked   int
}

// The node of the tests: itself at 192.168.0.1, pods in 10.244.1.0/24 behind cni0, all else behind eth0 but for 203.0.113.0/24,
// which nothing leads to.
var (
	nodeAddrs = []string{"192.168.0.1", "127.0.0.1", "fd00:1::1", "::1"}
	podCIDR   = netip.MustParsePrefix("10.244.1.0/24")
	nowhere   = netip.MustParsePrefix("203.0.113.0/24")
)

func (w *fakeNode) set(name, kind string, entries ...string) *fakeNode {
	if w.kinds == nil {
		w.kinds, w.entries = map[string]string{}, map[string][]string{}
	}
	w.kinds[name], w.entries[name] = kind, entries
	return w
}

func (w *fakeNode) Kind(set string) (string, error) {
	if w.kinds[set] == "" {
		return "", fmt.Errorf("the set is gone")
	}
	return w.kinds[set], nil
}

func (w *fakeNode) Has(set, entry string) (bool, error) {
	w.asked++
	return slices.Contains(w.entries[set], entry), nil
}

func (w *fakeNode) Local(a netip.Addr) (bool, error) {
	return slices.Contains(nodeAddrs, a.String()), nil
}

func (w *fakeNode) Route(p Packet, _ uint32) (string, error) {
	switch to := p.Dst.Addr(); {
	case podCIDR.Contains(to):
		return "cni0", nil
	case nowhere.Contains(to):
		return "", fmt.Errorf("%w to %s", ErrNoRoute, to)
	default:
		return "eth0", nil
	}
}

// possible is a flow with a mark, a share and conditions like "+1-2".
func possible(mark uint32, share float64, conditions string) flow {
	f := flow{state: state{mark: mark}, share: share}
	for i := 0; i+1 < len(conditions); i += 2 {
		f.ifs = f.ifs.with(int(conditions[i+1]-'0'), conditions[i] == '+')
	}
	return f
}

func TestPossibilitiesThatAreEqualAgainBecomeOne(t *testing.T) {
	for name, tc := range map[string]struct {
		flows []flow
		want  string
	}{
		"shares add up":             {[]flow{possible(1, 0.25, ""), possible(1, 0.5, "")}, "1: 0.75"},
		"different packets stay":    {[]flow{possible(1, 0.25, ""), possible(2, 0.5, "")}, "1: 0.25, 2: 0.5"},
		"what does not matter goes": {[]flow{possible(1, 1, "+1"), possible(1, 1, "-1")}, "1: 1"},
		"not for different packets": {[]flow{possible(1, 1, "+1"), possible(2, 1, "-1")}, "1: 1 +1, 2: 1 -1"},
		"not for different shares":  {[]flow{possible(1, 1, "+1"), possible(1, 0.5, "-1")}, "1: 0.5 -1, 1: 1 +1"},
		"two of them": {
			[]flow{possible(1, 1, "+1+2"), possible(1, 1, "-1+2"), possible(1, 1, "+1-2"), possible(1, 1, "-1-2")}, "1: 1",
		},
		"the second of two":           {[]flow{possible(1, 1, "+1+2"), possible(1, 1, "+1-2")}, "1: 1 +1"},
		"none is used twice":          {[]flow{possible(1, 1, "+1+2"), possible(1, 1, "-1+2"), possible(1, 1, "+1-2")}, "1: 1 +1-2, 1: 1 +2"},
		"conditions of chance add up": {[]flow{possible(1, 0.5, "+1"), possible(1, 0.5, "+1"), possible(1, 1, "-1")}, "1: 1"},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, f := range merge(tc.flows) {
				conditions := ""
				for _, c := range f.ifs {
					conditions += fmt.Sprintf("%s%d", map[bool]string{true: "+", false: "-"}[c.holds], c.number)
				}
				got = append(got, strings.TrimSpace(fmt.Sprintf("%d: %v %s", f.mark, f.share, conditions)))
			}
			slices.Sort(got)
			if diff := cmp.Diff(tc.want, strings.Join(got, ", ")); diff != "" {
				t.Errorf("possibilities (-want +got):\n%s", diff)
			}
		})
	}
}
