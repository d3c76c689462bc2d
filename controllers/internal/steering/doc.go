// Package steering says which Service may have which address: it turns the ServiceCIDRPolicies and ServiceCIDRs of a cluster into
// a Compiled, an immutable value that answers for one Service at a time.
//
// It models rank (priority, age, name), the ranges that each policy has after conflicts are settled, closed ranges, reservations,
// cool-downs, and the order in which addresses are drawn: the dynamic bands of all ranges that a Service may use before any static one.
//
//	policies, ServiceCIDRs ──Compile──> Compiled ──Route──> tiers to draw from, or who refuses
//	                                             ──MayHold> may a chosen address be taken
//
// It promises that the same objects give the same Compiled on every replica, whatever the order in which they were seen, that a policy
// which is wrong in a part loses that part and harms no other, and that answers cost the same with one policy as with a thousand.
//
// Start with Compile and Compiled. Cache keeps the Compiled of the cluster as it is now; everything else is pure.
package steering
