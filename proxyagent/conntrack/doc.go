// Package conntrack takes UDP flows out of the kernel's connection tracking that no longer go where the rules would send them.
//
// The kernel asks the rules about the first packet of a flow only. A TCP connection to an endpoint that is gone fails and is begun anew; a UDP
// client that keeps its port keeps its flow alive, and its packets go nowhere for ever. Once the flow is deleted, the next packet asks the rules.
//
//	Plan, Delta ──> book     who has each frontend now, and which frontends may have stale flows
//	                  │
//	Table ── Flow ──> stale? ── yes ──> Table.Delete
//
// A frontend is a virtual IP with a port, or a node port. Whether a flow to it is stale:
//
//	it went to    and the frontend now has        stale
//	an endpoint   that endpoint, or it serves     no
//	an endpoint   other endpoints, or none        yes
//	an endpoint   no Service                      yes
//	nowhere       endpoints                       yes; at node ports only if nobody ever answered
//	nowhere       no endpoints                    no
//
// All endpoints of a port count that serve, also those that terminate or that only traffic from some sources goes to: flows may end
// in peace, and where a flow came from does not show in its addresses.
//
// It promises that no other flow is touched, that a flow is deleted by its full tuple and identity, so that a new one with the same
// addresses stays, and that the table is only read when there may be something to find.
//
// Start with stale.go, which is pure, then reconcile.go. [Table] is the door to the kernel.
package conntrack
