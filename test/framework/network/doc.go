// Package network makes a small network of Linux network namespaces, in which a Service proxy meets real packets: a node with
// two local pods, a remote node with a pod, and a client outside of the cluster, all with both IP families.
//
//	pod1 ──┐                          ┌── eth0 (primary node IP) ── client
//	       ├── node (the proxy here) ─┼── eth1 (alt node IP) ────── client
//	pod2 ──┘                          └── eth2 (cluster network) ── remote ── remote-pod
//
// Start with [New], which returns a [Topology]. Every [Namespace] of it can serve ([Namespace.Serve]), ask ([Namespace.Dial]) and run
// programs ([Namespace.Command]). Servers name themselves and tell where they were reached and by whom, so that the [Result] of
// one Dial shows which endpoint a proxy chose and whether it changed the source address.
//
// It promises:
//   - The addresses are the same in every Topology, for no two Topologies know of each other: several may live side by side, in several processes.
//   - Servers and clients live in the test's own process: their sockets belong to a namespace, their goroutines do not. A Dial costs
//     a few system calls.
//   - Nothing outside of its namespaces is touched. Close removes them, and New removes those of processes that died without a Close.
//   - Packets to addresses that no host of the topology has are dropped without an answer at the default gateway of the node.
//
// It needs root. The kernel of a test machine often lacks SCTP sockets, so SCTP is spoken by this package itself over raw sockets, as far
// as a proxy can see it: INIT and INIT ACK, with correct checksums.
package network
