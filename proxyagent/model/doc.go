// Package model holds the values that the parts of the node agent hand to each other. It is the centre of the star:
// everything may import it, it imports the standard library alone, and it does nothing.
//
//	watch ── Changes ──> compile ── Delta ──> iptables, nftables, ipvs, conntrack
//	                        └────── Plan, the sum of all Deltas
//
// [State] is what the API server said, [Changes] the difference between two of them. [Plan] is what one node has to do for one
// IP family, in words of the Service API and without a word of iptables; [Delta] is the difference between two Plans.
// Values are not changed after they have been handed over, so they may be shared by goroutines.
package model
