package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ExclusiveRangesName is the name of the one object of the kind ExclusiveRanges, of the ValidatingAdmissionPolicy that reads it, and of the
// ValidatingAdmissionPolicyBinding between the two.
const ExclusiveRangesName = "clusterip-operator-exclusive"

// ExclusiveRanges is what the API server itself goes by when it keeps Services out of the ranges of policies with enforcement: APIServer.
//
// The operator writes one object, as long as there is such a policy, and overwrites what others change. A ValidatingAdmissionPolicy has it as its
// parameter: all policies are in one object, because the API server evaluates each parameter by itself, and addresses are looked up, because
// comparing with every range would cost more with every range.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,path=exclusiveranges,singular=exclusiveranges,categories=clusterip
// +kubebuilder:printcolumn:name=Age,type=date,JSONPath=`.metadata.creationTimestamp`,description="The time since its creation."
type ExclusiveRanges struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is what ServiceCIDRPolicies and ServiceCIDRs say together.
	// +required
	Spec ExclusiveRangesSpec `json:"spec,omitempty"`
}

// ExclusiveRangesList is a list of ExclusiveRanges.
//
// +kubebuilder:object:root=true
type ExclusiveRangesList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ExclusiveRanges `json:"items"`
}

// ExclusiveRangesSpec says who may have which addresses.
type ExclusiveRangesSpec struct {
	// IPv4Lengths are the prefix lengths of the IPv4 ranges, the longest first.
	// +required
	// +listType=atomic
	IPv4Lengths []int32 `json:"ipv4Lengths"`
	// IPv6Lengths are the prefix lengths of the IPv6 ranges, the longest first.
	// +required
	// +listType=atomic
	IPv6Lengths []int32 `json:"ipv6Lengths"`
	// Ranges are the ranges by their CIDRs. Of those that an address lies in, the one with the longest prefix decides. An address that lies in none is
	// open to all.
	// +required
	// +mapType=atomic
	Ranges map[string]ExclusiveRange `json:"ranges"`
	// Selectors are those of the policies that have any of the ranges.
	// +required
	// +listType=atomic
	Selectors []ExclusiveSelector `json:"selectors"`
}

// ExclusiveRange says who may have the addresses of a range. One without open, service and selectors is closed to all.
type ExclusiveRange struct {
	// Policy is the ServiceCIDRPolicy that keeps others out.
	Policy string `json:"policy"`
	// Open: every Service may have an address.
	// +optional
	Open bool `json:"open,omitempty"`
	// Service may have an address, namespace/name: it is reserved for it.
	// +optional
	Service string `json:"service,omitempty"`
	// Selectors are positions in the list of selectors: a Service that any of them selects may have an address.
	// +optional
	// +listType=atomic
	Selectors []int32 `json:"selectors,omitempty"`
}

// ExclusiveSelector selects Services: those that fulfil all requirements.
type ExclusiveSelector struct {
	// Namespace are what is required of the labels of the namespace.
	// +required
	// +listType=atomic
	Namespace []metav1.LabelSelectorRequirement `json:"namespace"`
	// Service are what is required of the labels of the Service.
	// +required
	// +listType=atomic
	Service []metav1.LabelSelectorRequirement `json:"service"`
}
