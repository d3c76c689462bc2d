package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Growth has the operator create ServiceCIDRs for a policy before its ranges are full. It looks at
// each family of the Supernets in From by itself, and never deletes a ServiceCIDR.
type Growth struct {
	// From are the networks that ranges are cut from, the first one first, and in each the lowest free
	// block first. A block is free if it overlaps no ServiceCIDR, no node address or pod CIDR, none of
	// the networks that the operator's configuration declares, and none of ReservedNetworks.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	From []Supernet `json:"from"`
	// WhenFreePercent asks for a range when at most this share of the policy's addresses is free, and
	// less than a new range would bring. Only dynamic bands, from which addresses are drawn, count.
	// +optional
	// +kubebuilder:default=20
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	WhenFreePercent int32 `json:"whenFreePercent,omitempty"`

	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9]') && self.matches('^([0-9]{1,3}h)?([0-9]{1,5}m)?([0-9]{1,7}s)?$') && duration(self) >= duration('1m') && duration(self) <= duration('720h')",message="give a duration from 1m to 720h (30 days) in hours, minutes and seconds, such as 72h or 1h30m"

	// WhenFullWithin also asks for a range when half of the addresses are used and the ranges will be
	// full within this time if they go on filling up as in the last hours. From 1m to 720h (30 days).
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=40
	WhenFullWithin *metav1.Duration `json:"whenFullWithin,omitempty"`
	// MaxRanges bounds the ServiceCIDRs of each family that the operator creates for this policy.
	// Deleted ones do not count.
	// +optional
	// +kubebuilder:default=8
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1024
	MaxRanges int32 `json:"maxRanges,omitempty"`

	// +kubebuilder:validation:items:XValidation:rule="isCIDR(self) && string(cidr(self).masked()) == self",message="give a CIDR (10.130.0.0/16 or fd00:10:130::/64) from its first address on, in the shortest form and in lower case"

	// ReservedNetworks are left out, beside what the operator knows to be in use.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=43
	ReservedNetworks []string `json:"reservedNetworks,omitempty"`
	// DryRun creates nothing: the condition Growing says what would be created.
	// +optional
	// +kubebuilder:default=false
	DryRun bool `json:"dryRun,omitempty"`
}

// Supernet is a network that ranges are cut from.
//
// +kubebuilder:object:generate=false
// +kubebuilder:validation:XValidation:rule="!isCIDR(self.cidr) || self.prefixLength >= cidr(self.cidr).prefixLength()",message="the ranges lie in the supernet: give a prefixLength that is not shorter than that of cidr",fieldPath=".prefixLength"
// +kubebuilder:validation:XValidation:rule="!isCIDR(self.cidr) || cidr(self.cidr).ip().family() == 6 || self.prefixLength <= 30",message="give IPv4 ranges a prefixLength from 8 to 30",fieldPath=".prefixLength"
// +kubebuilder:validation:XValidation:rule="!isCIDR(self.cidr) || cidr(self.cidr).ip().family() == 4 || self.prefixLength >= 64",message="give IPv6 ranges a prefixLength from 64 to 126: API servers take no larger range",fieldPath=".prefixLength"
type Supernet struct {
	// +kubebuilder:validation:XValidation:rule="isCIDR(self) && string(cidr(self).masked()) == self",message="give a CIDR (10.128.0.0/10 or fd00:10:128::/48) from its first address on, in the shortest form and in lower case"

	// CIDR is the whole network. Its family is that of the ranges.
	// +required
	// +kubebuilder:validation:MaxLength=43
	CIDR string `json:"cidr"`
	// PrefixLength is that of each range, 16 for 10.128.0.0/16: 8 to 30 in IPv4, 64 to 126 in IPv6.
	// +required
	// +kubebuilder:validation:Minimum=8
	// +kubebuilder:validation:Maximum=126
	PrefixLength int32 `json:"prefixLength"`
}
