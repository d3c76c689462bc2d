package trace

import (
	"errors"
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
	w := fakeNode{}
	if !w.Local(p.Src) {
		p.In, _ = w.Route(Packet{Dst: netip.AddrPortFrom(p.Src, 0)}, 0)
	}
	return p
}

const (
	pod      = "10.244.1.2"
	node     = "192.168.0.1"
	outsider = "198.51.100.7"
)

func walked(t *testing.T, p Packet, rules string) Path {
	t.Helper()
	r, err := Parse(rules)
	if err != nil {
		t.Fatal(err)
	}
	path, err := Walk(p, r, fakeNode{})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("\n%s", path)
	return path
}

// nat and filter are tables with those rules.
func nat(rules ...string) string { return "*nat\n" + strings.Join(rules, "\n") + "\nCOMMIT\n" }

func filter(rules ...string) string { return "*filter\n" + strings.Join(rules, "\n") + "\nCOMMIT\n" }

func TestThePathTellsEveryRuleThatMatched(t *testing.T) {
	rules := nat(":PREROUTING ACCEPT [0:0]", "-A PREROUTING -j TOP", "-A TOP -d 10.96.0.1/32 -j DOWN", "-A TOP -j LOG --log-prefix \"-j DROP \"",
		"-A DOWN -p udp -j ACCEPT",
		"-A DOWN -p tcp -m statistic --mode random --probability 0.25 -j DNAT --to-destination 10.244.1.3",
		"-A POSTROUTING -d 10.244.1.3/32 -j SNAT --to-source 192.168.0.1") +
		filter("-A FORWARD -i cni0 -o cni0 -j ACCEPT", "-A FORWARD -m geoip -j DROP", "-A FORWARD -j NFQUEUE")
	want := `A new TCP connection from 10.244.1.2 to 10.96.0.1:80, coming in by cni0
nat PREROUTING
  -A PREROUTING -j TOP
    -A TOP -d 10.96.0.1/32 -j DOWN
      -A DOWN -p tcp -m statistic --mode random --probability 0.25 -j DNAT --to-destination 10.244.1.3
    -A TOP -j LOG --log-prefix "-j DROP "
filter FORWARD
  -A FORWARD -i cni0 -o cni0 -j ACCEPT
        > for 1 of 2 possibilities
  -A FORWARD -m geoip -j DROP
        > cannot tell whether it matches (-m geoip is not known here); both are followed
  -A FORWARD -j NFQUEUE
        > not known here; it is passed by
nat POSTROUTING
  -A POSTROUTING -d 10.244.1.3/32 -j SNAT --to-source 192.168.0.1
        > for 1 of 2 possibilities
Verdict: goes to 10.244.1.3:80 (1/4), with the source 192.168.0.1
     or: perhaps dropped by -A FORWARD -m geoip -j DROP
     or: perhaps goes to 10.96.0.1:80, with its own source
`
	if diff := cmp.Diff(want, walked(t, tcp(pod, "10.96.0.1:80"), rules).String()); diff != "" {
		t.Errorf("path (-want +got):\n%s", diff)
	}
}

// Each table gets one rule for each of its chains, so that the order is seen.
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
	for want, packet := range map[string]Packet{
		"raw PREROUTING, mangle PREROUTING, nat PREROUTING, mangle FORWARD, filter FORWARD, security FORWARD, mangle POSTROUTING, " +
			"nat POSTROUTING": tcp(pod, "10.9.9.9:80"),
		"raw PREROUTING, mangle PREROUTING, nat PREROUTING, mangle INPUT, filter INPUT, security INPUT, nat INPUT":   tcp(outsider, node+":80"),
		"raw OUTPUT, mangle OUTPUT, nat OUTPUT, filter OUTPUT, security OUTPUT, mangle POSTROUTING, nat POSTROUTING": tcp(node, "10.9.9.9:80"),
		"raw OUTPUT, mangle OUTPUT, nat OUTPUT, filter OUTPUT, security OUTPUT, mangle POSTROUTING, nat POSTROUTING, raw PREROUTING, " +
			"mangle PREROUTING, mangle INPUT, filter INPUT, security INPUT": tcp(node, "127.0.0.1:80"),
	} {
		chains := slices.DeleteFunc(walked(t, packet, all.String()).Steps, func(s string) bool { return s[0] == ' ' })
		if diff := cmp.Diff(want, strings.Join(chains, ", ")); diff != "" {
			t.Errorf("chains (-want +got):\n%s", diff)
		}
	}
}

// What rules about connections of this node do is compared with the kernel (TestWalkAgreesWithTheKernel); here is the rest.
func TestVerdicts(t *testing.T) {
	there, asSent := tcp(pod, "10.9.9.9:80"), "goes to 10.9.9.9:80, with its own source"
	for name, tc := range map[string]struct {
		packet Packet
		rules  string
		want   string
	}{
		"the policy is last": {there, filter(":FORWARD DROP [0:0]", "-A FORWARD -p udp -j ACCEPT"), "dropped by the policy of filter FORWARD"},
		"not after accept":   {there, filter(":FORWARD DROP [0:0]", "-A FORWARD -j ACCEPT"), asSent},
		"for the node":       {tcp(outsider, node+":22"), nat(), "goes to 192.168.0.1:22 on this node itself, with its own source"},
		"without a way":      {tcp(pod, "203.0.113.5:80"), nat(), "goes nowhere: there is no route"},
		"a new port":         {there, nat("-A PREROUTING -j DNAT --to-destination :81"), "goes to 10.9.9.9:81, with its own source"},
		"one of several": {
			there, nat("-A PREROUTING -j DNAT --to-destination 10.9.9.1-10.9.9.8"), "goes to 10.9.9.1-10.9.9.8, which is not followed further",
		},
		"redirected": {there, nat("-A PREROUTING -j REDIRECT"), "goes to this node itself by -A PREROUTING -j REDIRECT"},
		"the way after it": {
			there, nat("-A PREROUTING -j DNAT --to-destination 10.244.1.9") + filter("-A FORWARD ! -o eth+ -j REJECT"),
			"refused by -A FORWARD ! -o eth+ -j REJECT",
		},
		"a doubt about nothing": {
			there, filter("-A FORWARD -m geoip -j LOG", "-A FORWARD -m limit --limit 5/min -j A", "-A A -p udp -j DROP"), asSent,
		},
		"a doubt beside what decides": {there, filter("-A FORWARD -p udp -m geoip -j DROP"), asSent},
		"the same in both cases":      {there, filter("-A FORWARD -m geoip -j A", "-A FORWARD -j DROP", "-A A -j RETURN"), "dropped by -A FORWARD -j DROP"},
		"a set that is gone": {
			there, filter("-A FORWARD -m set --match-set GONE dst -j DROP", "-A FORWARD -j DROP"),
			"perhaps dropped by -A FORWARD -j DROP; perhaps dropped by -A FORWARD -m set --match-set GONE dst -j DROP",
		},
		"its set": {
			there, filter("-A FORWARD -m set --match-set PORTS dst,dst,src -j DROP"),
			"dropped by -A FORWARD -m set --match-set PORTS dst,dst,src -j DROP",
		},
		"a comment": {there, filter("-A FORWARD -m comment --comment -j -j DROP"), "dropped by -A FORWARD -m comment --comment -j -j DROP"},
		"IPv6": {
			tcp("fd00:244::2", "[fd00:96::1]:80"),
			nat("-A PREROUTING -d fd00:96::1/128 -p tcp -m tcp --dport 80 -j DNAT --to-destination [fd00:244::3]:8080"),
			"goes to [fd00:244::3]:8080, with its own source",
		},
		"three endpoints": {
			there, nat("-A PREROUTING -m statistic --mode random --probability 0.33333333349 -j DNAT --to-destination 10.9.0.1",
				"-A PREROUTING -m statistic --mode random --probability 0.5 -j DNAT --to-destination 10.9.0.2",
				"-A PREROUTING -j DNAT --to-destination 10.9.0.3"),
			"goes to 10.9.0.1:80 (1/3), 10.9.0.2:80 (1/3), 10.9.0.3:80 (1/3), with its own source",
		},
		"an address that is not known": {
			tcp(node, "127.0.0.1:80"), nat("-A POSTROUTING -j MASQUERADE") + filter("-A INPUT -s 192.168.0.1/32 -j DROP", "-A INPUT -j DROP"),
			"perhaps dropped by -A INPUT -j DROP; perhaps dropped by -A INPUT -s 192.168.0.1/32 -j DROP",
		},
	} {
		t.Run(name, func(t *testing.T) {
			verdict := strings.ReplaceAll(walked(t, tc.packet, tc.rules).verdict(), "\n     or: ", "; ")
			if diff := cmp.Diff("Verdict: "+tc.want+"\n", verdict); diff != "" {
				t.Errorf("verdict (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRulesWithoutAnEndAreAnError(t *testing.T) {
	var manyMarks []string // each may change the future in its own way
	for i := range 30 {
		manyMarks = append(manyMarks, fmt.Sprintf("-A FORWARD -m unknown -j MARK --set-xmark %#x/%#x", 1<<i, 1<<i))
	}
	for name, rules := range map[string]string{
		"a loop":              filter("-A FORWARD -j A", "-A A -j B", "-A B -g A"),
		"too many marks":      filter(manyMarks...),
		"no table":            "-A INPUT -j DROP\n",
		"a word of a program": "*nat\niptables: no such file",
	} {
		r, err := Parse(rules)
		if err == nil {
			_, err = Walk(tcp(pod, "10.9.9.9:80"), r, fakeNode{})
		}
		if err == nil {
			t.Errorf("%s is no error", name)
		}
	}
}

// fakeNode is a node at 192.168.0.1 with pods in 10.244.1.0/24 behind cni0; all else is behind eth0, but for 203.0.113.0/24, which nothing
// leads to. It has the set PORTS.
type fakeNode struct{}

func (fakeNode) Kind(set string) (string, error) {
	if set == "PORTS" {
		return "hash:ip,port,ip", nil
	}
	return "", fmt.Errorf("the set is gone")
}

func (fakeNode) Has(_, entry string) (bool, error) { return entry == "10.9.9.9,tcp:80,"+pod, nil }

func (fakeNode) Local(a netip.Addr) bool {
	return slices.Contains([]string{node, "127.0.0.1", "fd00:1::1", "::1"}, a.String())
}

func (fakeNode) Route(p Packet, _ uint32) (string, error) {
	switch to := p.Dst.Addr(); {
	case netip.MustParsePrefix("10.244.1.0/24").Contains(to):
		return "cni0", nil
	case netip.MustParsePrefix("203.0.113.0/24").Contains(to):
		return "", errors.New("there is no route")
	default:
		return "eth0", nil
	}
}

func FuzzWalk(f *testing.F) {
	f.Add(filter("-A FORWARD -m set --match-set S dst,dst -j DROP", "-A FORWARD -m mark --mark 0x1/0x1 -g A", "-A A -j NFQUEUE"))
	f.Add("*nat\n:PREROUTING DROP [0:0]\n-A PREROUTING ! -s 10.0.0.0/33 -m statistic --every 0 ! -j DNAT --to-destination [::1-:0\n")
	f.Fuzz(func(t *testing.T, text string) {
		if strings.Count(text, "\n") > 50 {
			return // many rules take long
		}
		r, err := Parse(text)
		if err != nil {
			return
		}
		for _, p := range []Packet{tcp(pod, "10.96.0.1:80"), tcp(node, "127.0.0.1:1")} {
			if path, err := Walk(p, r, fakeNode{}); err == nil && !strings.Contains(path.String(), "Verdict: ") {
				t.Errorf("there is no verdict in\n%s", path)
			}
		}
	})
}
