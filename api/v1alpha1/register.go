package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is what an API server serves the kinds of this package under.
var GroupVersion = schema.GroupVersion{Group: Prefix, Version: "v1alpha1"}

// Resource names the ServiceCIDRPolicies in URLs, RBAC rules and the parents of our IPAddresses.
const Resource = "servicecidrpolicies"

var (
	// SchemeBuilder collects what AddToScheme does.
	SchemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)
	// AddToScheme teaches a scheme the kinds of this package, so that clients can read and write them.
	AddToScheme = SchemeBuilder.AddToScheme
)

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &ServiceCIDRPolicy{}, &ServiceCIDRPolicyList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
