//go:build linux

// Package trace asks this node's kernel which rules a packet matches, and what becomes of it.
//
//	Options ── frame ──> marked packet ── send ──> kernel ── listen ──> steps ── print ──> text
//
// The packet is real. A table of our own sets the kernel's trace bit on it before any other rule
// sees it, and drops it behind the last one: no host receives it. So nothing has to be known here
// about matches, targets, sets, routes or other programs' rules, of iptables or nftables. The
// kernel reports rules of nftables, and of iptables-nft, as messages of nf_tables, and those of
// iptables-legacy through netfilter's log. One socket receives both, in order.
//
// What remains: counters of the rules that matched, a client that session affinity remembers, a
// connection that IPVS has for a minute, and the answer to SRC when a rule refuses. A random choice
// among endpoints is taken as it falls. Start with run.go.
package trace
