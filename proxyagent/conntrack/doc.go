// Package conntrack takes flows out of the kernel's connection tracking that do not go where the
// rules would send them.
//
// The kernel evaluates the rules for the first packet of a flow only. A client that keeps its
// source port keeps its flow, also one that began before there was a Service or whose endpoint has
// gone, and its packets are lost. Once the flow is deleted, the next packet is evaluated again.
//
//	Plan, Delta ──> index    the endpoints of each front, and which fronts may have stale flows
//	                  │
//	Search ── Query ──> Table ── Flow ──> stale? ── yes ──> Table.Delete
//
// A front is a virtual IP with a port, or a node port. Whether a flow to it is stale:
//
//	it went to    and the front now has           stale
//	an endpoint   that endpoint, or it serves     no
//	an endpoint   other endpoints, or none        yes
//	an endpoint   no Service                      yes
//	nowhere       endpoints                       yes; at node ports only if nothing answered
//	nowhere       no endpoints                    no
//
// That is so for UDP and SCTP. A TCP connection to an endpoint that has gone fails, and the client
// opens another: only those never answered are looked at, a second after the change.
//
// All endpoints of a port that serve count, also those that terminate and those that only traffic
// from some sources goes to: existing flows may continue, and the addresses of a flow do not say by
// which policy it was sent.
//
// It promises that no other flow is touched, that a flow is deleted by its full tuple and identity,
// so that a new one with the same addresses stays, and that the table is only read when there may
// be something to find: beside the agent's loop, and in a tenth of the time at most.
//
// Beside that, [Kernel.Count] counts connections to some addresses, of all protocols.
//
// Start with flow.go, which is pure, reconcile.go and search.go. [Table] leads to the kernel.
package conntrack
