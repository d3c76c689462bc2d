// Package watch follows an API server and tells what became different, as [model.Changes].
//
//	informer ──convert──> store ──┐ (small values of this package, not API objects)
//	    └── event ──> pending ────┤
//	                   names only └── Take ──> model.Changes
//
// An object is converted when it arrives and only what a node needs of it is kept; see service.go, slice.go and
// networking.go, whose convert functions are pure. An event whose object converts to the same value ends there: resyncs, lists after an
// outage and changes of status or annotations are not reported. Every other event marks a name, and [Source.Take] builds what is marked from the
// stores. So an event costs what its own Service costs, however many others there are.
//
// Services of other proxies are followed for the addresses that they claim. Nodes other than the
// own one are followed only while a Service has weights of endpoints that depend on them, and only
// where an admin allows it: peers.go.
//
// It promises that nothing is ever reported gone because the API server, or one API of it, cannot be reached: what was known stays.
//
// Start with [New] and [Source].
package watch
