// Package stage is what the suites about robustness, allocations, bad input and cleanup play on: a network of namespaces with one node, a
// Node object, and the node agent, run in either variant of iptables against the control plane of the suite.
//
// It models a [Stage] with the verbs that specs need: make Services and endpoints ([Stage.Service], [Stage.Endpoints]), ask whether they are
// served ([Stage.Reaches]), keep traffic going ([Stage.Traffic]), read the firewall ([Stage.Rules]). Verbs fail the spec when they are refused.
//
// It promises that the agent is the one that was built with the race detector, that a race or a panic fails the spec, and that
// nothing of a Stage is left after the node of the suite that opened it.
//
// Start with [Open].
package stage
