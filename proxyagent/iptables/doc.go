// Package iptables keeps the rules of iptables, and the sets that they look into, in the kernel.
// README.md beside this file shows the packet flow and the reasons.
//
// It models a [Proxier] of one family, the edge between the kernel and a pure [rules.Ruleset]: it
// writes differences by iptables-restore, and repairs what other programs changed (check.go). It
// finds by trying which rules the kernel refuses (isolate.go). [Detect] chooses the variant of
// iptables, [Cleanup] takes everything away.
//
// It promises that a sync which failed is finished by the next, and that rules of other programs
// are never touched. Start reading at [Proxier.Sync].
package iptables
