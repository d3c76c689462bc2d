// Package condition tells in the cluster itself how far its migration to IPAddresses is: a condition on the default ServiceCIDR.
//
//	InProgress ──> ReadyToFlip ──> Flipped ──> Finalized
//
// It promises to write only when the phase or the numbers in it have changed, and leaves clusters alone that never allocated from
// a bitmap under its eyes. The manager runs it as a loop; the commands of the migration write through it as well.
package condition
