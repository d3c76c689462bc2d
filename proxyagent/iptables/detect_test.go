package iptables

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
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
