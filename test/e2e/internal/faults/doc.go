// Package faults makes what a node agent depends on fail as it fails on real machines: an iptables-restore that reports an error,
// before or after it did its work, or that takes long; and another process that holds the xtables lock.
//
// It models the [Programs] that an agent finds first in its PATH, and a [Lock].
//
// It promises to touch nothing outside of the folder that it was given.
//
// Start with [NewPrograms].
package faults
