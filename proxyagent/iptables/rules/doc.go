// Package rules turns a plan into rules of iptables and members of sets. It is pure: no kernel, no
// program, no clock.
//
// It models what the kernel should have as a [Ruleset], a function of the plan that applies Deltas
// and knows what is not written to the kernel yet (pending.go). Its parts are tree.go, lookup.go
// (virtual IPs and node ports), endpoints.go (the choice of an endpoint), port.go, sets.go and
// static.go. What the kernel has is [Saved], with which it is compared; a [Transaction] is the text
// that mends it.
//
// Of the schedulers it has random, with weights. For the rest of [model.Schedulers] a port has a
// [model.Degradation] and is served at random.
//
// It promises that a tenant can choose nothing in a rule but addresses, ports and numbers, and that
// the same plan gives the same rules whatever the history. Start reading at [Ruleset.Apply].
package rules
