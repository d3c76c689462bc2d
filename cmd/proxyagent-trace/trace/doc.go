//go:build linux

// Package trace asks the kernel of this node what it does with a packet: which rules match, in order, and what becomes of the packet.
//
//	Options ── frame ──> a packet that is marked ── send ──> the kernel ── listen ──> steps ── print ──> text
//
// The packet is real. A table of our own sets the kernel's trace bit on it before any other rule sees it, and drops it behind the last one: it reaches nobody. So nothing has to be
// known here about matches, targets, sets, routes or rules of others, whether they are iptables' or nftables'. The kernel reports rules of nftables, which those of iptables-nft are, as
// messages of nf_tables, and those of iptables-legacy through the log of netfilter. One socket receives both, in the order of the packet's way.
//
// Side effects that remain: counters of the rules that matched, a client that session affinity remembers, a connection that IPVS has for a minute, and the answer to SRC when a rule refuses. A random choice among
// endpoints is taken as it falls.
// Start with run.go.
package trace
