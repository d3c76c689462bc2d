// Package steering measures what the admission webhooks cost: creations, deletions and changes of Services with and without them, in turn;
// what their decisions take alone; two replicas beside one, of which the one that does not lead hands on what it is asked; and how fast the
// operator keeps addresses.
//
// It models a bed: a control plane with the permissions and webhook configurations of config/default, replicas of our manager under the
// operator's own user, and a balancer on loopback before them. With and without means that both webhook configurations are there or deleted;
// the manager runs in both cases, and does the rest of its work.
//
// Start with Run; creation.go, other.go, replicas.go, keeping.go, scale.go and decision.go hold one measurement each.
package steering
