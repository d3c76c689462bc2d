package iptables

import "testing"

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
