// Package trace answers what the rules of this node do with a packet: which of them match, in their order, and where the packet ends.
//
//	iptables-save ── Parse ──> Ruleset ┐
//	Packet ────────────────────────────┼── Walk ──> Path ── String ──> words
//	Node: sets, addresses, routes ────┘
//
// It models the first packet of a connection. It follows it through the built-in chains of all tables in the order of the kernel, into
// chains of ours and of others, and translates it on the way as a DNAT says. Where a rule decides by lot, it follows every possibility
// with its share. Where it does not know a match, it says so and follows both; where it does not know a target, it says so and goes
// past it.
//
// It promises to guess nothing silently: each possibility that hangs on something unknown names it. It changes nothing. What
// it does not look at are nftables rules that iptables does not show, the refusals of routing (rp_filter, martians), bridges and IPsec.
//
// Walk is pure but for the questions that it asks a Node. Run is the edge: it reads the kernel of this node. Start with walk.go.
package trace
