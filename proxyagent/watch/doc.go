// Package watch follows an API server and tells what became different, as [model.Changes].
//
//	informer ──convert──> store ──┐ (small values of this package, not API objects)
//	    └── event ──> pending ────┤
//	                   names only └── Take ──> model.Changes
//
// An object is converted when it arrives, and only what a node needs is kept: see the pure convert
// functions in service.go, slice.go and networking.go. An event that converts to the same value
// ends there: resyncs, lists after outages, changes of status or annotations. Any other marks a
// name, and [Source.Take] builds it from the stores: an event costs what its own Service costs.
//
// Services of other proxies are followed for the addresses that they claim. Nodes other than the
// own one are followed only while a Service has endpoint weights that depend on them, and only
// where an admin allows it: peers.go.
//
// It promises to report nothing gone because the API server, or one of its APIs, is unreachable.
//
// Start with [New] and [Source].
package watch
