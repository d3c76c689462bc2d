// Package reserve writes ServiceCIDRPolicies that keep the addresses of Services which exist, each
// for its Service: one that is deleted and created anew, in whatever order, has its address again.
//
// The policies of one name belong together: each has at most the 1,024 reservations that a policy
// can have. A reservation stays in its policy as long as it is wanted, so that running the command
// again changes nothing, and the reservation of a Service that is gone stays until it is pruned.
//
// Start with plan.go, which decides; gather.go reads, document.go prints and write.go applies.
package reserve
