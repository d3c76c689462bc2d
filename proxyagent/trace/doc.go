// Package trace shows what the rules of this node do with a packet: which of them match, in order, and the final verdict.
//
//	iptables-save ── Parse ──> Ruleset ┐
//	Packet ────────────────────────────┼── Walk ──> Path ── String ──> text
//	Node: sets, addresses, routes ─────┘
//
// It follows the first packet of a connection through the built-in chains of all tables in the order of the kernel, into our chains and those
// of others, and translates it as DNAT does. Where a rule matches at random, every possibility is followed with its share. Where a match or
// a target is not known here, the text says so: both results of a match are followed, a target is passed by, and the verdict is a "perhaps".
//
// Nothing on the node is changed. Nftables rules that iptables does not show, rp_filter and martian checks, bridges and IPsec are not
// considered. Walk is pure except for the questions that it asks a Node. Run reads the kernel of this node. Start with walk.go.
package trace
