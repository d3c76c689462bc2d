// Package condition reports the migration to IPAddresses as a condition of the default ServiceCIDR.
//
//	InProgress ──> ReadyToFlip ──> Flipped ──> Finalized
//
// It promises to write only when the phase or its numbers change, and not in clusters that never
// used a bitmap under its eyes. The manager runs it as a loop; the commands use it as well.
package condition
