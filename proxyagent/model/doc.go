// Package model holds the values that the parts of the node agent hand to each other. Everything
// may import it; it imports only the standard library, and it does nothing.
//
//	watch ── Changes ──> compile ── Delta ──> iptables, nftables, ipvs, conntrack
//	                        └────── Plan, the sum of all Deltas
//
// [State] is what the API server said, [Changes] the difference between two States. [Plan] is what
// one node does for one IP family, in terms of the Service API, not of iptables; [Delta] is the
// difference between two Plans. Values do not change once handed over: goroutines may share them.
package model
