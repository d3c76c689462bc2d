// Package iptables keeps the rules of iptables, and the sets that they look into, in the kernel. README.md beside this file shows the packet flow and
// the reasons.
//
// It models a [Proxier] of one family, the edge between the kernel and a [rules.Ruleset], which is pure: it writes what differs by
// iptables-restore, and reads and repairs what others changed (drift.go). Rules that the kernel refuses it finds by trying (isolate.go). [Detect] chooses the
// variant of iptables, [Cleanup] takes everything away.
//
// It promises that a sync which failed is finished by the next, and that rules of others are never touched. Start reading at [Proxier.Sync].
package iptables
