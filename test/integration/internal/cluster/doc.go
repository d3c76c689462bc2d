// Package cluster is the stage on which the suites about Service ranges play: a real control plane, and whoever looks after its
// ServiceCIDRs and IPAddresses: our operator, kube-controller-manager, both, or nobody.
//
// It models a [Cluster] with the verbs that specs need. Writers fail the spec when they are refused. Readers answer with plain
// values, the absence of what was asked for included, so that Eventually and Consistently can ask them again and again.
//
// It promises that our manager is the one that was built with the race detector, and that a race which it saw fails
// the spec.
//
// Start with [Start].
package cluster
