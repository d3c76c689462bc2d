//go:build linux

package flowtest

// Kind is a Service proxy under test.
type Kind string

// The proxies: ours in both variants of iptables, and kube-proxy 1.36 in both of its modes.
const (
	OursNFT           Kind = "proxyagent with iptables-nft"
	OursLegacy        Kind = "proxyagent with iptables-legacy"
	KubeProxyIPTables Kind = "kube-proxy in mode iptables"
	KubeProxyNFTables Kind = "kube-proxy in mode nftables"
)

// Ours reports whether it is our own proxy.
func (k Kind) Ours() bool { return k == OursNFT || k == OursLegacy }
