// Package proxyagent is the loop of the node agent: it takes what changed in the cluster, compiles what the node has to do about it, and has the
// kernel do it.
//
//	Source ── Changes ──> Compiler (one for each family) ── Delta ──> Backend, then Flows
//
// Everything around it is an interface; the binary cmd/proxyagent connects the real ones. What it promises:
//
//   - Nothing is programmed before the source has listed everything once.
//   - Changes are gathered for MinSyncPeriod after a sync; the first one after a quiet time is programmed at once.
//   - A sync that fails is tried again with back-off, whole. No change is lost, and no family waits
//     for another. Until it succeeds the agent is not healthy, unless the family is optional and
//     the cluster has nothing of it.
//   - The rules stay when the agent ends.
//
// Start reading at [Agent.Run].
package proxyagent
