// Package steering says which Service may have which address: it turns ServiceCIDRPolicies and
// ServiceCIDRs of a cluster into Compiled, an immutable value that answers for a Service at a time.
//
// It models rank (priority, name), the ranges of each policy after conflicts are settled,
// closed ranges, reservations, cool-downs, and the order in which addresses are drawn: the dynamic
// bands of all ranges that a Service may use before any static one.
//
//	policies, ServiceCIDRs ──Compile──> Compiled ──Route──> what to draw from in order, or refusal
//	                                             ──MayHold> may a chosen address be taken
//	                                             ──Recompile> the same after a change
//
// It promises that the same objects compile to the same on every replica, in whatever order they
// were seen, that a policy which is wrong in a part loses that part and harms no other, and that
// answers cost the same with one policy as with a thousand. A change costs what overlaps with it.
//
// Start with Compile and Compiled; reach says what a change has to do with. Cache keeps what the
// cluster compiles to now; the rest is pure.
package steering
