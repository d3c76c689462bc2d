package iptables

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestLeadsToUs(t *testing.T) {
	for rule, want := range map[string]bool{
		`-j CIPA-SERVICES`: true,
		`-s 10.0.0.0/8 -m comment --comment "a b" -j CIPA-X`: true,
		`-g CIPA-VIPS`:     true,
		`-j KUBE-SERVICES`: false,
		`-p tcp -m comment --comment "counts -j CIPA-SERVICES"`: false,
		`-m comment --comment "quote \" -j CIPA-X" -j ACCEPT`:   false,
		`-m comment --comment "quote \" -j CIPA-X"`:             false,
		`-j LOG --log-prefix "x -j CIPA-X"`:                     false,
		`-m comment --comment "-j CIPA-X"`:                      false,
		`-j`:                                                    false,
		``:                                                      false,
		`-m comment --comment unfinished" -j CIPA-X`:            false,
	} {
		if got := leadsToUs(rule); got != want {
			t.Errorf("%s leads to us: %t, want %t", rule, got, want)
		}
	}
}

func TestParseSaveReadsTheCounter(t *testing.T) {
	const text = "*filter\n:CIPA-FORWARD - [0:0]\n[7:420] -A CIPA-FORWARD -m conntrack --ctstate NEW -j CIPA-NEW\n[12:3400] -A CIPA-FORWARD -m conntrack --ctstate INVALID -j DROP\nCOMMIT\n"
	if got := parseSave([]byte(text)).invalid; got != 12 {
		t.Errorf("got %d packets, want 12", got)
	}
	if got := parseSave([]byte("*filter\n[7:1] -A CIPA-FORWARD -j NONE\n")).invalid; got != 0 {
		t.Errorf("a rule that is not there has %d packets", got)
	}
}

// TestSameRules holds what is written against what versions of iptables-save print of it, and against what means something else.
func TestSameRules(t *testing.T) {
	for name, tc := range map[string]struct {
		written, read string
		want          bool
	}{
		"alike":                           {"-j CIPA-VIPS", "-j CIPA-VIPS", true},
		"the match of a protocol":         {"-p tcp --dport 80 -j DNAT", "-p tcp -m tcp --dport 80 -j DNAT", true},
		"the match of SCTP":               {"-p sctp --dport 80 -g X", "-p sctp -m sctp --dport 80 -g X", true},
		"another port":                    {"-p tcp --dport 80 -g X", "-p tcp -m tcp --dport 81 -g X", false},
		"another protocol":                {"-p tcp --dport 80 -g X", "-p udp -m udp --dport 80 -g X", false},
		"a mark that is set":              {"-j MARK --or-mark 0x4000", "-j MARK --set-xmark 0x4000/0x4000", true},
		"another mark":                    {"-j MARK --or-mark 0x4000", "-j MARK --set-xmark 0x8000/0x8000", false},
		"a mark that is set whole":        {"-j MARK --or-mark 0x4000", "-j MARK --set-xmark 0x4000/0xffffffff", false},
		"a mark that is turned":           {"-j MARK --xor-mark 0x4000", "-j MARK --set-xmark 0x4000/0x0", true},
		"a probability in few digits":     {"-m statistic --mode random --probability 0.33333333333 -j X", "-m statistic --mode random --probability 0.33333333 -j X", true},
		"a probability as the kernel has": {"--probability 0.33333333333 -j X", "-m statistic --mode random --probability 0.33333333349 -j X", true},
		"another probability":             {"--probability 0.33333333333 -j X", "--probability 0.50000000000 -j X", false},
		"a probability close by":          {"--probability 0.33333333333 -j X", "--probability 0.33300000000 -j X", false},
		"a probability that went":         {"--probability 0.33333333333 -j X", "-j X", false},
		"no probability at all":           {"--probability x -j X", "--probability x -j X", true},
		"the default of REJECT":           {"-j REJECT", "-j REJECT --reject-with icmp-port-unreachable", true},
		"the default of REJECT in IPv6":   {"-j REJECT", "-j REJECT --reject-with icmp6-port-unreachable", true},
		"a reset":                         {"-j REJECT", "-j REJECT --reject-with tcp-reset", false},
		"a set that may have the entry":   {"-j SET --add-set A src --exist --timeout 5", "-j SET --add-set A src --exist --timeout 5", true},
		"the length of one address":       {"-d 10.96.0.1/32 -j X", "-d 10.96.0.1 -j X", true},
		"one address of IPv6":             {"-d fd00::1/128 -j X", "-d fd00::1 -j X", true},
		"a network":                       {"-d 10.96.0.0/16 -j X", "-d 10.96.0.0/24 -j X", false},
		"a negation that went":            {"! -d 10.96.0.0/16 -j X", "-d 10.96.0.0/16 -j X", false},
		"another set":                     {"-m set --match-set A dst -j X", "-m set --match-set B dst -j X", false},
		"goto, not jump":                  {"-g X", "-j X", false},
		"nothing behind the last word":    {"-j MARK --or-mark", "-j MARK --or-mark", true},
	} {
		if got := sameRules([]string{tc.written}, []string{tc.read}); got != tc.want {
			t.Errorf("%s: %q and %q are the same: %t (%q and %q)", name, tc.written, tc.read, got, normal(tc.written), normal(tc.read))
		}
	}
	if sameRules([]string{"-j A", "-j B"}, []string{"-j B", "-j A"}) {
		t.Error("the order does not matter")
	}
	if sameRules([]string{"-j A"}, []string{"-j A", "-j A"}) || sameRules([]string{"-j A"}, nil) || !sameRules(nil, nil) {
		t.Error("the number of rules does not matter")
	}
}

func TestParseSave(t *testing.T) {
	const text = `# Generated by iptables-nft-save v1.8.9
*filter
:INPUT ACCEPT [0:0]
:CIPA-FORWARD - [0:0]
:KUBE-FORWARD - [0:0]
-A FORWARD -m comment --comment "no -j CIPA-X" -j KUBE-FORWARD
-A FORWARD -j CIPA-FORWARD
-A FORWARD -j CIPA-FORWARD
-A KUBE-FORWARD -j CIPA-FORWARD
-A CIPA-FORWARD -m conntrack --ctstate INVALID -j DROP
COMMIT
*nat
:CIPA-EMPTY - [0:0]
:CIPA-FORWARD - [0:0]
-A CIPA-FORWARD -j CIPA-EMPTY
COMMIT
*mangle
:CIPA-OLD - [0:0]
COMMIT
`
	s := parseSave([]byte(text))
	want := map[chain][]string{
		{filter, "CIPA-FORWARD"}: {"-m conntrack --ctstate INVALID -j DROP"}, {nat, "CIPA-EMPTY"}: nil, {nat, "CIPA-FORWARD"}: {"-j CIPA-EMPTY"},
		{"mangle", "CIPA-OLD"}: nil,
	}
	if diff := cmp.Diff(want, s.chains, cmp.AllowUnexported(chain{})); diff != "" {
		t.Errorf("chains (-want +got):\n%s", diff)
	}
	wantJumps := map[jump]int{{filter, "FORWARD", "-j CIPA-FORWARD"}: 2, {filter, "KUBE-FORWARD", "-j CIPA-FORWARD"}: 1}
	if !maps.Equal(s.jumps, wantJumps) {
		t.Errorf("jumps: got %v, want %v", s.jumps, wantJumps)
	}
}

// ofKubeProxy is what kube-proxy and a kubelet leave on a node, shortened.
const ofKubeProxy = `*mangle
:PREROUTING ACCEPT [0:0]
:KUBE-IPTABLES-HINT - [0:0]
:KUBE-KUBELET-CANARY - [0:0]
:KUBE-PROXY-CANARY - [0:0]
COMMIT
*filter
:INPUT ACCEPT [0:0]
:KUBE-EXTERNAL-SERVICES - [0:0]
:KUBE-FIREWALL - [0:0]
:KUBE-FORWARD - [0:0]
:KUBE-NODEPORTS - [0:0]
:KUBE-PROXY-FIREWALL - [0:0]
:KUBE-SERVICES - [0:0]
-A INPUT -m conntrack --ctstate NEW -m comment --comment "kubernetes load balancer firewall" -j KUBE-PROXY-FIREWALL
-A INPUT -m comment --comment "kubernetes health check service ports" -j KUBE-NODEPORTS
-A INPUT -m conntrack --ctstate NEW -m comment --comment "kubernetes externally-visible service portals" -j KUBE-EXTERNAL-SERVICES
-A INPUT -j KUBE-FIREWALL
-A FORWARD -m comment --comment "kubernetes forwarding rules" -j KUBE-FORWARD
-A KUBE-FIREWALL ! -s 127.0.0.0/8 -d 127.0.0.0/8 -m comment --comment "block incoming localnet connections" -j DROP
-A KUBE-FORWARD -m conntrack --ctstate INVALID -j DROP
COMMIT
*nat
:PREROUTING ACCEPT [0:0]
:KUBE-MARK-MASQ - [0:0]
:KUBE-SERVICES - [0:0]
:KUBE-SVC-NPX46M4PTMTKRN6Y - [0:0]
:KUBE-SEP-6E7XQMQ4RAYOWTTM - [0:0]
:KUBE-SERVICESX - [0:0]
:KUBEX - [0:0]
:CIPA-SERVICES - [0:0]
-A PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A PREROUTING -m comment --comment "-j KUBE-SERVICES" -j CIPA-SERVICES
-A KUBE-SERVICES -d 10.96.0.1/32 -j KUBE-SVC-NPX46M4PTMTKRN6Y
-A KUBE-SVC-NPX46M4PTMTKRN6Y -j KUBE-SEP-6E7XQMQ4RAYOWTTM
-A MINE -j KUBE-MARK-MASQ
COMMIT
`

// TestParseKubeProxy finds kube-proxy's chains and what leads to them; those of the kubelet, of others, and ours stay.
func TestParseKubeProxy(t *testing.T) {
	s := parseKubeProxy([]byte(ofKubeProxy))
	var chains []string
	for c := range s.chains {
		chains = append(chains, string(c.table)+" "+c.name)
	}
	slices.Sort(chains)
	want := []string{
		"filter KUBE-EXTERNAL-SERVICES", "filter KUBE-FORWARD", "filter KUBE-NODEPORTS", "filter KUBE-PROXY-FIREWALL", "filter KUBE-SERVICES",
		"mangle KUBE-PROXY-CANARY", "nat KUBE-MARK-MASQ", "nat KUBE-SEP-6E7XQMQ4RAYOWTTM", "nat KUBE-SERVICES", "nat KUBE-SVC-NPX46M4PTMTKRN6Y",
	}
	if diff := cmp.Diff(want, chains); diff != "" {
		t.Errorf("chains (-want +got):\n%s", diff)
	}
	wantJumps := map[jump]int{
		{filter, "INPUT", `-m conntrack --ctstate NEW -m comment --comment "kubernetes load balancer firewall" -j KUBE-PROXY-FIREWALL`}:                1,
		{filter, "INPUT", `-m comment --comment "kubernetes health check service ports" -j KUBE-NODEPORTS`}:                                            1,
		{filter, "INPUT", `-m conntrack --ctstate NEW -m comment --comment "kubernetes externally-visible service portals" -j KUBE-EXTERNAL-SERVICES`}: 1,
		{filter, "FORWARD", `-m comment --comment "kubernetes forwarding rules" -j KUBE-FORWARD`}:                                                      1,
		{nat, "PREROUTING", `-m comment --comment "kubernetes service portals" -j KUBE-SERVICES`}:                                                      1,
		{nat, "MINE", "-j KUBE-MARK-MASQ"}: 1,
	}
	if diff := cmp.Diff(wantJumps, s.jumps, cmp.AllowUnexported(jump{})); diff != "" {
		t.Errorf("jumps (-want +got):\n%s", diff)
	}
}
