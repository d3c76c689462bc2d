// Package nfnetlink speaks with the netfilter part of the kernel: it models one connection to it,
// and the attributes that its messages are made of.
//
//	ipset, conntrack ───────────────────> Conn ──> NETLINK_NETFILTER
//	iptables, nftables ──> Generations ────┘
//
// The socket and the exchange of messages come from github.com/vishvananda/netlink/nl; only
// requests are written and answers read here. The functions above it are not used: those for ipset
// panic if an answer is no errno, start a goroutine per attribute, and send one entry per message.
//
// It promises that a Conn stays in the network namespace in which it was opened, and that it reads
// nothing beyond the end of an answer. Start with conn_linux.go.
package nfnetlink
