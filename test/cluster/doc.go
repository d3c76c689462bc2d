// Package cluster starts a Kubernetes cluster of some nodes on one machine, without a container
// engine.
//
// A node is a set of namespaces with containerd and kubelet in it (node/). The first one has the
// network namespace of the process that starts the cluster, and so has the control plane: the API
// server, for webhooks, and that process reach Service IPs and pods. It must be the process's own
// (network.Isolate): all that a cluster changes in a network ends with it. The nodes are on one
// bridge, and so is their default gateway, an empty namespace, where clients outside would be.
//
// Start with Start. network.go has addresses and links, controlplane.go what the framework lacks,
// node.go the nodes, files.go their configuration, addons.go what they can run.
package cluster
