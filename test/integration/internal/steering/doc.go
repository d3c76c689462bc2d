// Package steering is the stage on which the suites about ServiceCIDRPolicies play: a cluster (package cluster) with the CRD, the
// permissions and the webhook configurations of config/, and replicas of our manager that serve webhooks over TLS.
//
// It models a [Bed]. Replicas run as the operator's own user, under the permissions of config/rbac and with leader election. The API
// server reaches them through a balancer on loopback that takes the place of the webhook's Service, and that can refuse, cut and delay.
//
// It promises what package cluster promises: readers answer with plain values, writers fail the spec when they are refused,
// and a race or a panic that a replica logs fails it too. What it says about policies ([Bed.Misplaced]) it finds out by rules of its
// own, from objects alone.
//
// Start with [Start].
package steering
