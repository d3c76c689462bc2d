// Package trace shows what the rules of this node do with a packet: which of them match, in order, and the final verdict.
//
//	iptables-save ── Parse ──> Ruleset ┐
//	Packet ────────────────────────────┼── Walk ──> Path ── String ──> words
//	Node: sets, addresses, routes ────┘
//
// It models the first packet of a connection. It follows it through the built-in chains of all tables in the order of the kernel, into
// our chains and those of others, and translates it as DNAT does. Where a rule matches at random, it follows every possibility
// with its share. Where it cannot evaluate a match, it says so and follows both results; where it does not know a target, it says so and
// continues with the next rule.
//
// Each possibility that depends on something unknown names it. Nothing on the node is changed. Nftables rules that iptables does not show,
// rp_filter and martian checks, bridges and IPsec are not considered.
//
// Walk is pure except for the questions that it asks a Node. Run reads the kernel of this node. Start with walk.go.
package trace
