// Package cluster starts a Kubernetes cluster of some nodes on one machine, without a container engine.
//
// A node is a set of namespaces with containerd and kubelet in it (node/). The first one has the network namespace of the process that starts the cluster, and the control plane runs there: so
// the API server reaches Service IPs and pods, as it must for webhooks, and so does the process. That namespace has to be the process's own (network.Isolate); all that a cluster changes
// in a network goes with it. The nodes are on one bridge, and so is their default gateway, a namespace without anything else, where clients outside would be.
//
// Start with Start. network.go has addresses and links, controlplane.go what the framework's control plane lacks, node.go the nodes, files.go their configuration, addons.go what may be deployed on them.
package cluster
