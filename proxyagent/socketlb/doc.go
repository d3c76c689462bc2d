// Package socketlb translates connections to ClusterIPs at connect(): programs at a cgroup put an
// endpoint in the place of the virtual IP before there is a packet. No rule, no translation and no
// entry of connection tracking is needed afterwards.
//
//	Delta ──> Backend ──> Next: all of it, as rules
//	             └── fronts.Table ──> memory: maps ──> programs at connect() and getpeername()
//	                                                      Translator: attached to a cgroup
//
// [Backend] decorates another one and takes nothing from it: rules serve what is not translated,
// and all from the moment on at which the agent ends, since nothing is pinned. What goes leaves the
// maps before the rules, and what comes gets into them after the rules.
//
// Translated are connections over TCP to ClusterIPs and additional addresses. Left to rules are UDP
// and SCTP, session affinity, the schedulers that hash, external and load balancer IPs, node ports,
// former addresses, virtual IPs that the node has itself, sockets bound to loopback, all with
// masqueradeAll, what rules refuse or drop, and every client whose socket is not of this machine.
//
// A client is told the front by getpeername(): connect() leaves a note at the socket, without which
// it does not translate. A socket that connects again gets another note, or loses it.
//
// It takes Linux 5.10, and of capabilities NET_ADMIN and BPF, not PERFMON: hack/matrix.sh tests it
// on old kernels, whose verifiers refuse more.
//
// Start with fronts/, which decides what the maps hold, then program.go, what programs do with
// that; translator.go attaches them, backend.go has the order of things.
package socketlb
