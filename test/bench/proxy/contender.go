package proxy

import (
	"fmt"
	"slices"
	"strings"
)

// Contender is a Service proxy in one of its modes.
type Contender struct {
	// Key is for flags, Name for people.
	Key, Name string
	// Ours tells our agent from kube-proxy.
	Ours bool
	// Mode is that of kube-proxy; Variant is the kind of iptables, empty where none is used.
	Mode, Variant string
	// Peer is the Key of that of ours with which it is compared; empty for ours.
	Peer string
	// Most is the largest number of Services with which it makes sense to wait for it; 0 means any.
	Most int
}

// Keys of the contenders.
const (
	oursNFT       = "ours-nft"
	oursLegacy    = "ours-legacy"
	theirsLegacy  = "kube-proxy-legacy"
	theirsNFT     = "kube-proxy-nft"
	theirsNFTable = "kube-proxy-nftables"
)

// Contenders are all of them. Those of kube-proxy that need minutes for a start with 10,000 Services need up to hours for 30,000.
var Contenders = []Contender{
	{Key: oursLegacy, Name: "ours, legacy", Ours: true, Variant: "legacy"},
	{Key: oursNFT, Name: "ours, nft", Ours: true, Variant: "nft"},
	{Key: theirsLegacy, Name: "kube-proxy iptables, legacy", Mode: "iptables", Variant: "legacy", Peer: oursLegacy},
	{Key: theirsNFT, Name: "kube-proxy iptables, nft", Mode: "iptables", Variant: "nft", Peer: oursNFT, Most: 10_000},
	{Key: theirsNFTable, Name: "kube-proxy nftables", Mode: "nftables", Peer: oursNFT, Most: 10_000},
}

// Keys lists how the contenders are called in flags.
func Keys() (keys []string) {
	for _, c := range Contenders {
		keys = append(keys, c.Key)
	}
	return keys
}

// pick returns the contenders with these keys, in the order of Contenders.
func pick(keys []string) (picked []Contender, err error) {
	for _, key := range keys {
		if !slices.Contains(Keys(), key) {
			return nil, fmt.Errorf("there is no proxy %q; say some of %s", key, strings.Join(Keys(), ", "))
		}
	}
	for _, c := range Contenders {
		if slices.Contains(keys, c.Key) {
			picked = append(picked, c)
		}
	}
	return picked, nil
}

// metric is the full name of a metric that both have.
func (c Contender) metric(name string) string {
	if c.Ours {
		return "clusterip_proxyagent_" + name
	}
	return "kubeproxy_" + name
}
