// Package proxy measures Service proxies beside each other: ours and the real kube-proxy, each in network namespaces of its own kind, all
// on one control plane.
//
// For each size of the cluster the proxies are started one after the other, each alone: how long until all is in the kernel, how long a
// change takes. Those that are done are paused, and their rules stay. Then new connections are timed through all of them in turn; then
// all of them may do nothing for a while, together; then each has to keep up with changes without end while connections are timed.
//
// Start with Run. stand_linux.go is a proxy in its namespaces; cold, change, latency, quiet, busy, affinity and footprint measure one
// thing each; table.go and target.go show it.
package proxy
