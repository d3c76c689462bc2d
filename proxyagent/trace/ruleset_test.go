package trace

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// The texts on the left are what iptables-save 1.8.9 prints.
func TestOptionsAreReadAsIptablesSaveWritesThem(t *testing.T) {
	for rule, want := range map[string][]option{
		``: nil,
		`-d 10.96.0.1/32 -p tcp -j ACCEPT`: {
			{name: "-d", args: []string{"10.96.0.1/32"}}, {name: "-p", args: []string{"tcp"}}, {name: "-j", args: []string{"ACCEPT"}},
		},
		`! -i cni+ -m conntrack ! --ctstate NEW,DNAT`: {
			{not: true, name: "-i", args: []string{"cni+"}}, {name: "-m", args: []string{"conntrack"}},
			{not: true, name: "--ctstate", args: []string{"NEW,DNAT"}},
		},
		`-m comment --comment "say \"hi\" \\ there" -j X`: {
			{name: "-m", args: []string{"comment"}}, {name: "--comment", args: []string{`say "hi" \ there`}}, {name: "-j", args: []string{"X"}},
		},
		`-m comment --comment -j -j X`: {
			{name: "-m", args: []string{"comment"}}, {name: "--comment", args: []string{"-j"}}, {name: "-j", args: []string{"X"}},
		},
		`-m thing --of "-j DROP" 3 -f --flag`: {
			{name: "-m", args: []string{"thing"}}, {name: "--of", args: []string{"-j DROP", "3"}}, {name: "-f"}, {name: "--flag"},
		},
		`--tcp-flags FIN,SYN,RST,ACK SYN`: {{name: "--tcp-flags", args: []string{"FIN,SYN,RST,ACK", "SYN"}}},
		`--comment "without an end`:       {{name: "--comment", args: []string{"without an end"}}},
		`!`:                               {{name: "!"}},
		`--match-set S`:                   {{name: "--match-set", args: []string{"S"}}},
	} {
		if diff := cmp.Diff(want, options(tokens(rule)), cmp.AllowUnexported(option{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", rule, diff)
		}
	}
}

func TestLinesThatAreNoRulesAreErrors(t *testing.T) {
	for text, want := range map[string]string{
		"-A INPUT -j DROP\n":                  `reading line 1 of the rules, "-A INPUT -j DROP": it belongs to no table`,
		"*nat\niptables: no such file":        `reading line 2 of the rules, "iptables: no such file": it is no rule`,
		"# comment\n\n*nat\nCOMMIT\n":         "",
		"*nat\n-A X -j DROP\nCOMMIT\n":        "",
		"*nat\n" + strings.Repeat("a", 2<<20): "reading the rules: bufio.Scanner: token too long",
	} {
		got := ""
		if _, err := Parse(text); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("the error is %q, want %q", got, want)
		}
	}
}

func TestRulesAreCounted(t *testing.T) {
	r, err := Parse(nat("-A A -j B", "-A B") + filter("-A INPUT -j DROP"))
	if err != nil || r.Rules() != 3 {
		t.Errorf("there are %d rules, %v", r.Rules(), err)
	}
}

func TestSetsAreAskedForWhatTheirTypeHolds(t *testing.T) {
	s := state{Packet: udp(pod, "10.96.0.1:53")}
	for question, want := range map[string]string{
		"hash:ip dst":                  "10.96.0.1",
		"hash:net src":                 pod,
		"hash:ip,port dst,dst":         "10.96.0.1,udp:53",
		"hash:ip,port,ip dst,dst,src":  "10.96.0.1,udp:53,10.244.1.2",
		"hash:ip,port,net src,dst,dst": "10.244.1.2,udp:53,10.96.0.1",
		"hash:ip dst,dst":              "10.96.0.1",
		"bitmap:port dst":              "53",
		"hash:ip,port dst,src":         "the source port is not known",
		"hash:ip,port dst":             "its type hash:ip,port is not understood",
		"hash:mac src":                 "its type hash:mac is not understood",
		"list:set dst":                 "its type list:set is not understood",
		"junk dst":                     "its type junk is not understood",
		"hash:net,iface dst,dst":       "its type hash:net,iface is not understood",
	} {
		kind, directions, _ := strings.Cut(question, " ")
		got, err := entryOf(kind, strings.Split(directions, ","), s)
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s asks for %q, want %q", question, got, want)
		}
	}
}

// A packet to the node's own second address is masqueraded, and comes in again with an address that only the kernel chooses.
func TestTheSourceOfALoopedPacketIsNotGuessed(t *testing.T) {
	masquerade := nat("-A POSTROUTING -j MASQUERADE")
	for name, tc := range map[string]struct {
		match string
		want  []string
	}{
		"its address":  {"-s 192.168.0.1/32", []string{"goes", "dropped"}},
		"a range":      {"-m iprange --src-range 192.168.0.1-192.168.0.9", []string{"goes", "dropped"}},
		"its set":      {"-m set --match-set S src", []string{"goes", "dropped"}},
		"its state":    {"-m conntrack --ctstate SNAT", []string{"goes", "dropped"}},
		"local it is":  {"-m addrtype --src-type LOCAL", []string{"dropped"}},
		"its original": {"-m conntrack --ctorigsrc 192.168.0.1", []string{"dropped"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := (&fakeNode{}).set("S", "hash:ip", "192.168.0.1")
			path := walked(t, tcp(node, "127.0.0.1:80"), masquerade+filter("-A INPUT "+tc.match+" -j DROP"), w)
			var got []string
			for _, o := range path.Outcomes {
				got = append(got, map[Verdict]string{Delivered: "goes", Dropped: "dropped"}[o.Verdict])
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("ends (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSharesAreWrittenAsPeopleDo(t *testing.T) {
	for share, want := range map[float64]string{
		1: "all", 0.5: "1/2", 1. / 3: "1/3", 0.33333333349: "1/3", 2. / 3: "2/3", 0.4: "2/5", 0.001: "1/1000", 0.123456: "12.35 %", 0: "0",
	} {
		if got := fraction(share); got != want {
			t.Errorf("%v is written %q, want %q", share, got, want)
		}
	}
}

func FuzzWalk(f *testing.F) {
	f.Add(nat(threeEndpoints))
	f.Add(filter("-A FORWARD -m set --match-set S dst,dst -j DROP", "-A FORWARD -m mark --mark 0x1/0x1 -g A", "-A A -j NFQUEUE"))
	f.Add("*nat\n:PREROUTING DROP [0:0]\n-A PREROUTING ! -s 10.0.0.0/33 -m statistic --every 0 ! -j DNAT --to-destination [::1-:0\n")
	f.Fuzz(func(t *testing.T, text string) {
		if strings.Count(text, "\n") > 50 {
			t.Skip("many rules take long")
		}
		r, err := Parse(text)
		if err != nil {
			return
		}
		for _, p := range []Packet{
			tcp(pod, "10.96.0.1:80"), {Protocol: model.SCTP, Src: netip.MustParseAddr(node), Dst: netip.MustParseAddrPort("127.0.0.1:1")},
		} {
			path, err := Walk(p, r, clusterSets())
			if err == nil && !strings.Contains(path.String(), "Verdict: ") {
				t.Errorf("there is no verdict in\n%s", path)
			}
		}
	})
}
