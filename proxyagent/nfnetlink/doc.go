// Package nfnetlink speaks with the netfilter part of the kernel: it models one connection to it, and the attributes that its messages
// are made of.
//
//	ipset, conntrack ───────────────────> Conn ──> NETLINK_NETFILTER
//	iptables, nftables ──> Generations ────┘
//
// The socket and the exchange of messages come from github.com/vishvananda/netlink/nl; only requests are written and answers read here.
// Its functions one level up are not used: those for ipset panic when an answer is no errno, start a goroutine for each attribute that
// they read, and send one entry in each message.
//
// It promises that a Conn stays in the network namespace that it was opened in, and that nothing is read beyond the end of an answer.
// Start with conn_linux.go.
package nfnetlink
