// Package compile turns what the API server said into what one node has to do for one IP family:
// [model.Changes] into [model.Delta], whose sum is [model.Plan]. It is pure: no clock, no kernel,
// no API, nothing of iptables.
//
// It models three questions about a Service, each in a file of its own:
//
//	claims.go     what it claims: addresses, ports, node ports, whatever the order of its slices
//	ownership.go  which claims win: IPAddresses, age, and ClusterIPs before everything else
//	sets.go       which endpoints traffic may use: policies, topology hints, termination
//
// [Compiler] keeps the answers. A Service whose endpoints change is compiled alone, one whose
// claims change together with those that claim the same address or port: the cost of a change does
// not grow with the number of Services. Only a Node with a new name, zone or address concerns all.
//
// It promises that any sequence of Apply leads to the same Plan as one Apply of its sum, whatever
// malformed input is in it; that a Delta holds only what changed; that an address, port and
// protocol belong to one Service port at a time, and a node port and protocol too; and that slices
// of a Plan are sorted, without duplicates and never changed after they were handed out.
//
// [Compiler.Explain] answers the same questions in words, with the same functions. Start with
// compiler.go, then intake.go, which finds the Services that a change concerns, and ownership.go.
package compile
