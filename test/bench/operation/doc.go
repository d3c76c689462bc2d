// Package operation measures what it costs to run the manager beside a full cluster: the time from its start until it
// knows and has checked every address, memory, processor time while nothing happens, and how soon deleted IPAddresses
// are back. Where upstream has a program for the same job, that is measured in the same run.
//
// Start with Run; start.go, idle.go, restore.go and labels.go hold one measurement each.
package operation
