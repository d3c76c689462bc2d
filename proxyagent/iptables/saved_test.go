package iptables

import "testing"

func TestLeadsToUs(t *testing.T) {
	for rule, want := range map[string]bool{
		`-j PA-SERVICES`: true,
		`-s 10.0.0.0/8 -m comment --comment "a b" -j PA-X`: true,
		`-g PA-VIPS`:       true,
		`-j KUBE-SERVICES`: false,
		`-p tcp -m comment --comment "counts -j PA-SERVICES"`: false,
		`-m comment --comment "quote \" -j PA-X" -j ACCEPT`:   false,
		`-m comment --comment "quote \" -j PA-X"`:             false,
		`-j LOG --log-prefix "x -j PA-X"`:                     false,
		`-m comment --comment "-j PA-X"`:                      false,
		`-j`:                                                  false,
		``:                                                    false,
		`-m comment --comment unfinished" -j PA-X`:            false,
	} {
		if got := leadsToUs(rule); got != want {
			t.Errorf("%s leads to us: %t, want %t", rule, got, want)
		}
	}
}

func TestParseSaveReadsTheCounter(t *testing.T) {
	const text = "*filter\n:PA-FORWARD - [0:0]\n[7:420] -A PA-FORWARD -m conntrack --ctstate NEW -j PA-NEW\n[12:3400] -A PA-FORWARD -m conntrack --ctstate INVALID -j DROP\nCOMMIT\n"
	if got := parseSave([]byte(text)).invalid; got != 12 {
		t.Errorf("got %d packets, want 12", got)
	}
	if got := parseSave([]byte("*filter\n[7:1] -A PA-FORWARD -j NONE\n")).invalid; got != 0 {
		t.Errorf("a rule that is not there has %d packets", got)
	}
}
