// Package flowtest puts a Service proxy into a network of namespaces and lets tests say, in words of the Service API, what they give it and
// what they expect of packets. It is the vocabulary of the suites below test/e2e.
//
// A [Cluster] is a control plane that several [Environment]s share. A Environment is a network ([network.Topology]), the Node that the proxy runs on, and
// the proxy: ours or the real kube-proxy, see [Kind]. Services are made in a namespace of the Environment ([Environment.Create]) from [Service]
// values, with hand-made EndpointSlices from [Endpoint] values, for one IP family. A [Want] says what a [Flow] shall find; [Check] asks
// the network.
//
// Start with [Check]: everything else leads there.
package flowtest
