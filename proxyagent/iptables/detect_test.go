package iptables

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
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

func TestWeigh(t *testing.T) {
	for text, want := range map[string]struct {
		hint  bool
		rules int
	}{
		":KUBE-IPTABLES-HINT - [0:0]\n":                                       {hint: true},
		":KUBE-KUBELET-CANARY - [0:0]\n":                                      {hint: true},
		":KUBE-IPTABLES-HINTS - [0:0]\n":                                      {},
		"# :KUBE-IPTABLES-HINT - [0:0]\n":                                     {},
		"-A KUBE-SERVICES -j RETURN\n-A CNI-x -j RETURN\n-A cali-x -j DROP\n": {rules: 3},
		"-A FLANNEL-FWD -j RETURN\n-A CILIUM_INPUT -j RETURN\n":               {rules: 2},
		"-A INPUT -j KUBE-SERVICES\n-A CIPA-SERVICES -j CIPA-VIPS\n":          {},
		"": {},
	} {
		e := evidence{hint: map[Mode]bool{}, rules: map[Mode]int{}}
		e.weigh(NFT, []byte(text))
		if e.hint[NFT] != want.hint || e.rules[NFT] != want.rules || e.hint[Legacy] || e.rules[Legacy] != 0 {
			t.Errorf("%q: %+v, want %+v", text, e, want)
		}
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
			programs: map[string]string{"iptables-nft": "", "ip6tables-nft": "-A KUBE-SERVICES -j RETURN", "iptables": "iptables v1.8.9 (legacy)"}, want: NFT,
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

// TestDue is about how often something is compared: neither more often than the period nor for more than its part of the time.
func TestDue(t *testing.T) {
	start := time.Now()
	for name, tc := range map[string]struct {
		took, period, passed time.Duration
		parts                int
		want                 bool
	}{
		"in the period":                        {time.Millisecond, time.Second, 999 * time.Millisecond, 100, false},
		"after the period":                     {time.Millisecond, time.Second, time.Second, 100, true},
		"after the period, but it takes long":  {time.Second, time.Second, 99 * time.Second, 100, false},
		"after long, and it takes long":        {time.Second, time.Second, 100 * time.Second, 100, true},
		"no period":                            {0, 0, 0, 10, true},
		"no period, but it takes long":         {time.Second, 0, 9 * time.Second, 10, false},
		"no period, it takes long, after long": {time.Second, 0, 10 * time.Second, 10, true},
	} {
		if got := (checkTimer{at: start, took: tc.took}).due(start.Add(tc.passed), tc.period, tc.parts); got != tc.want {
			t.Errorf("%s: got %t", name, got)
		}
	}
	if !(checkTimer{}).due(start, 5*time.Minute, 1000) {
		t.Error("what was never checkTimer at is not due")
	}
}

// TestOneSlowLook is about an agent that stood still in the middle of a look: the next one comes in time all the same.
func TestOneSlowLook(t *testing.T) {
	start := time.Now()
	took := func(times ...time.Duration) (l checkTimer) {
		for _, one := range times {
			l = l.again(start, one)
		}
		return l
	}
	for name, tc := range map[string]struct {
		l    checkTimer
		want time.Duration
	}{
		"the first":                  {took(time.Second), 2 * time.Second},
		"one that is slow":           {took(time.Millisecond, time.Minute), 2 * time.Second},
		"one after one that was":     {took(time.Millisecond, time.Minute, time.Millisecond), 2 * time.Second},
		"two that are slow":          {took(time.Millisecond, time.Minute, time.Second), 100 * time.Second},
		"they are not slow any more": {took(time.Minute, time.Minute, 20*time.Millisecond), 2 * time.Second},
	} {
		if tc.l.due(start.Add(tc.want-1), 2*time.Second, 100) || !tc.l.due(start.Add(tc.want), 2*time.Second, 100) {
			t.Errorf("%s: is not due after exactly %s: %+v", name, tc.want, tc.l)
		}
	}
}

func TestSummary(t *testing.T) {
	for want, found := range map[string][]string{
		"a, b":                     {"a", "b"},
		"a, b, c, d, e":            {"a", "b", "c", "d", "e"},
		"a, b, c, d, e and 2 more": {"a", "b", "c", "d", "e", "f", "g"},
	} {
		if got := summary(found); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
