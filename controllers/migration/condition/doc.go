// Package condition tells in the cluster itself how far its migration to IPAddresses is: a condition on the default ServiceCIDR
// and two gauges.
//
//	InProgress ──> ReadyToFlip ──> Flipped ──> Finalized
//
// It models the phases, promises to write only when one of them or the numbers in it have changed, and leaves clusters
// alone that never allocated from a bitmap under its eyes. The manager runs it as a loop; the commands of the migration
// write through it as well.
//
// Start with condition.go, which is pure.
package condition
