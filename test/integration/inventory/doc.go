// Package inventory takes down what a cluster holds, so that a spec can say what has changed and what has not.
//
// It models a cluster as [Objects], values that are compared by [Objects.Changes], and the one-to-one relation of
// KEP-1880 between the addresses of Services and IPAddress objects as [Findings], the list of its breaches.
//
// It promises to leave out only what a Kubernetes API server writes for itself while nobody does anything. Both
// answers are lists of sentences: empty is good, and what is in them is fit for the report of a failure.
//
// Start with [Everything].
package inventory
