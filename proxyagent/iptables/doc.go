// Package iptables turns a plan into rules of iptables and sets, and writes them to the kernel. README.md beside this file shows the packet flow and
// the reasons.
//
// It models the rules as a [Ruleset], a pure function of the plan that applies Deltas and knows what is not written to the kernel yet;
// tree.go, lookup.go (virtual IPs and node ports), endpoints.go (the choice of an endpoint), port.go, sets.go and static.go are its parts, and all of it works
// without a kernel. [Proxier] is the edge: it reads, writes, and repairs what others changed.
//
// It promises that a sync which failed is finished by the next, that rules of others are never touched, and that nothing which a user of the
// cluster can choose gets into a rule but addresses, ports and numbers. Start reading at [Proxier.Sync].
package iptables
