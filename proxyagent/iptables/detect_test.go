package iptables

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

func TestChoose(t *testing.T) {
	only := func(modes ...Mode) map[Mode]bool {
		m := map[Mode]bool{}
		for _, mode := range modes {
			m[mode] = true
		}
		return m
	}
	both := only(NFT, Legacy)
	for name, tc := range map[string]struct {
		evidence  evidence
		want      Mode
		wantWords string
	}{
		"FORWARD drops, where no other variant can let anything pass": {
			evidence{drops: only(Legacy), hint: only(NFT), there: both}, Legacy, "its FORWARD drops",
		},
		"FORWARD drops in both": {evidence{drops: both, hint: only(NFT), there: both}, NFT, "the kubelet left its hint there"},
		"the kubelet's hint, against all else": {
			evidence{hint: only(Legacy), rules: map[Mode]int{NFT: 100}, standard: NFT, there: both}, Legacy, "the kubelet left its hint there",
		},
		"a hint for a variant that is not installed": {
			evidence{hint: only(Legacy), rules: map[Mode]int{NFT: 1}, there: only(NFT)}, NFT, "1 rules are there already",
		},
		"hints in both, more rules in one": {
			evidence{hint: both, rules: map[Mode]int{NFT: 3, Legacy: 7}, standard: NFT, there: both}, Legacy, "7 rules are there already",
		},
		"rules, but no program for them": {
			evidence{rules: map[Mode]int{NFT: 3}, there: only(Legacy)}, Legacy, "it is installed",
		},
		"as many rules in both": {
			evidence{rules: map[Mode]int{NFT: 3, Legacy: 3}, standard: Legacy, there: both}, Legacy, "the program iptables is of this variant",
		},
		"an empty node":                             {evidence{standard: Legacy, there: both}, Legacy, "the program iptables is of this variant"},
		"an empty node without a standard":          {evidence{there: both}, NFT, "it is installed"},
		"a standard that lacks its other programs":  {evidence{standard: NFT, there: only(Legacy)}, Legacy, "it is installed"},
		"the hint of nft":                           {evidence{hint: only(NFT), standard: Legacy, there: both}, NFT, "the kubelet left its hint there"},
		"nothing is installed, whatever else there": {evidence{hint: only(NFT), rules: map[Mode]int{NFT: 3}, standard: NFT}, "", "install the package iptables"},
	} {
		t.Run(name, func(t *testing.T) {
			got, why, err := choose(tc.evidence)
			if err != nil {
				why = err.Error()
			}
			if got != tc.want || !strings.Contains(why, tc.wantWords) || (err != nil) != (tc.want == "") {
				t.Errorf("chose %q, because %q, with the error %v; want %q, because %q", got, why, err, tc.want, tc.wantWords)
			}
		})
	}
}

// TestFound reads what other programs leave in tables.
func TestFound(t *testing.T) {
	for name, tc := range map[string]struct {
		text string
		want Found
	}{
		"nothing": {"*filter\n:INPUT ACCEPT [0:0]\n:FORWARD ACCEPT [0:0]\nCOMMIT\n", Found{}},
		"the kubelet": {"*filter\n:FORWARD ACCEPT [0:0]\n:KUBE-FIREWALL - [0:0]\n-A INPUT -j KUBE-FIREWALL\n-A KUBE-FIREWALL -d 127.0.0.0/8 -j DROP\nCOMMIT\n" +
			"*mangle\n:KUBE-IPTABLES-HINT - [0:0]\nCOMMIT\n", Found{}},
		"an agent": {"*filter\n:CIPA-FORWARD - [0:0]\n-A FORWARD -m comment --comment \"ours\" -j CIPA-FORWARD\n-A CIPA-FORWARD -m conntrack --ctstate INVALID -j DROP\nCOMMIT\n",
			Found{Ours: true}},
		"docker": {"*nat\n-A PREROUTING -j DOCKER\nCOMMIT\n*filter\n:FORWARD DROP [0:0]\n:DOCKER - [0:0]\n-A FORWARD -j DOCKER-USER\n-A FORWARD -j DOCKER\nCOMMIT\n",
			Found{Drops: []string{"iptables-nft of IPv6"}, Others: []string{"2 in filter of iptables-nft of IPv6"}}},
		"a firewall whose last rule refuses": {"*filter\n:FORWARD ACCEPT [0:0]\n-A FORWARD -j REJECT --reject-with icmp-port-unreachable\nCOMMIT\n",
			Found{Drops: []string{"iptables-nft of IPv6"}, Others: []string{"1 in filter of iptables-nft of IPv6"}}},
		"one that drops some":                                      {"*filter\n:FORWARD ACCEPT [0:0]\n-A FORWARD -s 192.0.2.1/32 -j DROP\nCOMMIT\n", Found{Others: []string{"1 in filter of iptables-nft of IPv6"}}},
		"a table with a rule of nft":                               {"# Table `filter' is incompatible, use 'nft' tool.\n*nat\n:PREROUTING ACCEPT [0:0]\nCOMMIT\n", Found{Hidden: []string{"filter of iptables-nft of IPv6"}}},
		"a table of which nft has other chains, and which follows": {"# Table `filter' contains incompatible base-chains, use 'nft' tool to list them.\n*filter\n:FORWARD ACCEPT [0:0]\nCOMMIT\n", Found{}},
		"a hidden table that decides nothing":                      {"# Table `mangle' is incompatible, use 'nft' tool.\n", Found{}},
		"a network plugin, and rules of its own that say nothing of Services": {"*mangle\n-A PREROUTING -j MARK --set-mark 1\nCOMMIT\n*nat\n-A POSTROUTING -j MASQUERADE\n-A CNI-HOSTPORT -j RETURN\nCOMMIT\n",
			Found{Others: []string{"1 in nat of iptables-nft of IPv6"}}},
	} {
		e := evidence{drops: map[Mode]bool{}, hint: map[Mode]bool{}, rules: map[Mode]int{}}
		e.weigh(NFT, model.IPv6, []byte(tc.text))
		if diff := cmp.Diff(tc.want, e.found); diff != "" || e.drops[NFT] != (len(tc.want.Drops) > 0) {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestFindTellsWhatCannotBeRead: a table that fails to be read may have any rule.
func TestFindTellsWhatCannotBeRead(t *testing.T) {
	folder := t.TempDir()
	for _, program := range []string{"iptables-nft", "ip6tables-nft"} {
		for suffix, text := range map[string]string{"": "exit 0", "-restore": "exit 0", "-save": "echo busy >&2; exit 4"} {
			if err := os.WriteFile(filepath.Join(folder, program+suffix), []byte("#!/bin/sh\n"+text+"\n"), 0o755); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Setenv("PATH", folder)
	hidden := Find(context.Background()).Hidden
	if len(hidden) != 2 || !strings.HasPrefix(hidden[0], "all of iptables-nft of IPv4 (") || !strings.HasPrefix(hidden[1], "all of iptables-nft of IPv6 (") {
		t.Errorf("hidden are %q", hidden)
	}
}

// TestDetectReadsTheNode has programs of a test stand for those of the node.
func TestDetectReadsTheNode(t *testing.T) {
	for name, tc := range map[string]struct {
		programs map[string]string // and what they print
		ask      Mode
		want     Mode
		wantErr  string
	}{
		"rules in IPv6 only": {
			programs: map[string]string{"iptables-nft": "", "ip6tables-nft": "-A CNI-x -j RETURN", "iptables": "iptables v1.8.9 (legacy)"}, want: NFT,
		},
		"a hint, and rules of others in the other variant": {
			programs: map[string]string{"iptables-legacy": "# :KUBE-IPTABLES-HINT -\n-A INPUT -j KUBE-SERVICES", "iptables-nft": ":KUBE-IPTABLES-HINT - [0:0]",
				"iptables": "iptables v1.8.9 (legacy)"}, want: NFT,
		},
		"the standard program is of nf_tables": {
			programs: map[string]string{"iptables-legacy": "", "iptables-nft": "", "iptables": "iptables v1.8.9 (nf_tables)"}, want: NFT,
		},
		"the standard program is of legacy, and old": {
			programs: map[string]string{"iptables-legacy": "", "iptables-nft": "", "iptables": "iptables v1.6.1"}, want: Legacy,
		},
		"asked for, and there":     {programs: map[string]string{"iptables-legacy": "", "iptables-nft": ""}, ask: Legacy, want: Legacy},
		"asked for, and not there": {programs: map[string]string{"iptables-nft": ""}, ask: Legacy, wantErr: "iptables-legacy-save is needed"},
		"nothing there":            {wantErr: "neither iptables-nft nor iptables-legacy is in PATH"},
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			for program, prints := range tc.programs {
				for _, suffix := range []string{"", "-save", "-restore"} {
					text := fmt.Sprintf("#!/bin/sh\necho '%s'\n", prints)
					if err := os.WriteFile(filepath.Join(folder, program+suffix), []byte(text), 0o755); err != nil {
						t.Fatal(err)
					}
				}
			}
			t.Setenv("PATH", folder)
			got, why, err := Detect(context.Background(), tc.ask)
			if got != tc.want || err != nil && !strings.Contains(err.Error(), tc.wantErr) || (err != nil) != (tc.wantErr != "") {
				t.Errorf("got %q because %q, and the error %v", got, why, err)
			}
		})
	}
}
