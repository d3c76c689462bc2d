// Package environment is what the suites about robustness, allocations, bad input and cleanup play on: a network of namespaces with one node, a
// Node object, and the node agent, run in either variant of iptables against the control plane of the suite.
//
// It models a [Environment] with the verbs that specs need: make Services and endpoints ([Environment.Service], [Environment.Endpoints]), ask whether they are
// served ([Environment.Reaches]), keep traffic going ([Environment.Traffic]), read the firewall ([Environment.Rules]). Verbs fail the spec when they are refused.
//
// It promises that the agent is the one that was built with the race detector, that a race or a panic fails the spec, and that
// nothing of a Environment is left after the node of the suite that opened it.
//
// Start with [Open].
package environment
