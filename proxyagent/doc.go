// Package proxyagent is the loop of the node agent: it takes what changed in the cluster, compiles
// what the node has to do about it, and has the kernel do it.
//
//	Source ── Changes ──> Compiler (one for each family) ── Delta ──> Backend, then Flows
//
// Everything around it is an interface; cmd/proxyagent connects the real ones. What it promises:
//
//   - Nothing is programmed before the source has listed everything once.
//   - Changes wait for MinSyncPeriod after a sync; the first after a quiet time does not wait.
//   - A sync that fails is tried again with back-off, whole. No change is lost, and no family waits
//     for another. Until it succeeds the agent is not healthy, unless the family is optional and
//     the cluster has nothing of it.
//   - A port that the kernel refuses fails no sync: see below.
//   - The rules stay when the agent ends.
//
// # What a failure degrades
//
// Of each failure the question is whether a tenant can cause it. What the node lacks is for all
// ports of a family: Sync and Check return an error, which means that nothing, or not everything,
// could be programmed. What a tenant can cause, by whatever a Service or an EndpointSlice may say,
// is for that port alone: no error, but a Degradation with its reason, and what was written is
// everything else ([model.ErrRefused], [model.Withheld]).
//
//	failure                                               what it degrades
//	a lock that is held, a program that is missing or     the family: back-off, /healthz 503
//	  hangs, netlink without an answer, no memory, no
//	  permission, no module of the family, tables, jumps
//	  and sets that all ports share
//	the kernel refuses a rule, chain, element, virtual    the port: RulesRefused, clients are
//	  server, or a set or member of one port              rejected
//	IPVS refuses an endpoint, or the node an address      the port: PartRefused, it is served
//	                                                      without that endpoint or address
//	a scheduler, or session affinity, that is not to be   the port: it is served without
//	  had, or too dear
//	a set that no port needs is in use by another         none: it is taken away after the next
//	  program                                             comparison of everything
//	a flow that connection tracking keeps                 the front: it is looked at again later
//	a health check node port that another program has     the Service: an event; it is tried again
//	a table that iptables cannot show                     the Node: TableUnreadable
//
// Backends find the ports by trying ever fewer together ([model.Bisect]), first those that changed
// since all was well. A port that is refused is tried again by Check once in a period, and soon
// after it changed, for a tenth of the time at most.
//
// Start reading at [Agent.Run].
package proxyagent
