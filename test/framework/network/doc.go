// Package network makes a small network of Linux network namespaces, in which a Service proxy meets
// real packets: a node with two local pods, a remote node with a pod, and a client outside of the
// cluster, all with both IP families.
//
//	pod1 ──┐                          ┌── eth0 (primary node IP) ── client
//	       ├── node (the proxy here) ─┼── eth1 (alt node IP) ────── client
//	pod2 ──┘                          └── eth2 (cluster network) ── remote ── remote-pod
//
// Start with [New], which returns a [Topology]. Every [Namespace] can serve ([Namespace.Serve]),
// ask ([Namespace.Dial]) and run programs ([Namespace.Command]). Servers tell their name, where
// they were reached and from where: a [Result] shows the endpoint and source that a proxy chose.
//
// It promises:
//   - All Topologies have the same addresses: they do not know of each other, and several may live
//     side by side, in several processes.
//   - Servers and clients live in the test's own process: a Dial costs a few system calls.
//   - Nothing outside is touched. Close removes the namespaces, New those of dead processes.
//   - The node's default gateway drops packets to addresses that no host has, without an answer.
//
// It needs root. A test machine's kernel often lacks SCTP sockets, so this package speaks SCTP over
// raw sockets, as far as a proxy can see it: INIT and INIT ACK, with correct checksums.
package network
