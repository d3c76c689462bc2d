// Package health looks at the operator itself: replicas, leader, webhooks, and the agents on the
// nodes, for `kubectl clusterip status` and the commands that need an answer of all agents.
//
// It promises to store nothing in the cluster: what it tries it tries as a dry run. What the user
// may not find out is said to be unknown, and is no error.
//
// Start with Look; status.go has the values, probe.go the trial of the webhooks.
package health
