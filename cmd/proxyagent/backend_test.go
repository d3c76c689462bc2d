//go:build linux

package main

import (
	"errors"
	"strings"
	"testing"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/iptables"
)

func TestModeAuto(t *testing.T) {
	others := []string{"3 in filter of iptables-nft of IPv4", "12 in nat of iptables-legacy of IPv6"}
	drops := []string{"iptables-nft of IPv4"}
	for name, tc := range map[string]struct {
		node   node
		want   backend // empty for a variant of iptables
		reason string
		says   string
	}{
		"an empty node": {node{}, native, "NoRulesOfOthers", "none of filter, none of network plugins or proxies elsewhere, and FORWARD accepts"},
		"rules of others": {
			node{iptables: iptables.Found{Others: others}}, "", "RulesOfOthers", "3 in filter of iptables-nft of IPv4, 12 in nat of iptables-legacy of IPv6",
		},
		"a table that cannot be shown": {
			node{iptables: iptables.Found{Hidden: []string{"filter of iptables-nft of IPv6"}}}, "", "RulesHidden", "cannot be read, and FORWARD may drop there what no rule of iptables lets pass: filter of iptables-nft of IPv6",
		},
		"a table that cannot be shown, since an agent with nftables": {node{table: true, iptables: iptables.Found{Hidden: []string{"filter"}}}, native, "ServedBefore", ""},
		"rules of others that came after ours":                       {node{table: true, iptables: iptables.Found{Others: others}}, native, "ServedBefore", "with nftables"},
		"rules of others that have gone":                             {node{iptables: iptables.Found{Ours: true}}, "", "ServedBefore", "with iptables"},
		"killed between two modes":                                   {node{table: true, iptables: iptables.Found{Ours: true}}, native, "NoRulesOfOthers", ""},
		"killed between two modes, beside others":                    {node{table: true, iptables: iptables.Found{Ours: true, Others: others}}, "", "RulesOfOthers", ""},
		"FORWARD drops": {node{iptables: iptables.Found{Drops: drops}}, "", "ForwardDrops", "the chain FORWARD drops in iptables-nft of IPv4"},
		"FORWARD drops since an agent with nftables": {node{table: true, iptables: iptables.Found{Drops: drops}}, "", "ForwardDrops", ""},
		"a kernel that lost nftables":                {node{table: true, unusable: errors.New("too old")}, "", "NFTablesUnusable", "too old"},
	} {
		got := auto(tc.node)
		if got.backend != tc.want || got.reason != tc.reason || !strings.Contains(got.why, tc.says) {
			t.Errorf("%s: got %+v", name, got)
		}
	}
}
