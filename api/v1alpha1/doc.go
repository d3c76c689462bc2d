// Package v1alpha1 is what clusterip-operator serves to users and writes into a cluster: the kind
// ServiceCIDRPolicy, and the names of labels, annotations, finalizers, condition types and field
// managers. All of it is API: manifests, dashboards, selectors and the clean-up after an
// uninstalled operator depend on it, so a name is never reused for another meaning.
//
// An API server refuses by itself whatever is wrong with a policy and can be seen in its schema;
// the operator's webhook refuses the rest. config/crd and the deep copies are generated from the
// markers here (hack/generate.sh).
//
// Start with ServiceCIDRPolicy, and with names.go.
//
// +kubebuilder:object:generate=true
// +groupName=clusterip-operator.io
package v1alpha1
