// Package v1alpha1 holds the names that clusterip-operator writes into a cluster: labels, finalizers,
// condition types and field managers. They are API: dashboards, selectors and the clean-up of an
// uninstalled operator depend on them, so a name is never reused for another meaning.
//
// Start with names.go.
package v1alpha1
