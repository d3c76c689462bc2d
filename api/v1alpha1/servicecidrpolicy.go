package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ServiceCIDRPolicy says which Services get their addresses from which ServiceCIDRs, whether other
// Services may, and which addresses are kept free.
//
// Of several policies that select a Service, the one of the highest priority steers it; among
// equals the first by name, so that a restore from a backup, which changes ages, changes no owner.
// The same order decides between policies that want the same range exclusively or one address. It
// does not decide about allocation: of the policies that have a range, the strictest counts.
//
// A policy steers only the families of which it has ranges: with IPv4 ranges alone it leaves the
// IPv6 address of a dual-stack Service to other policies.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=scp,categories=clusterip
// +kubebuilder:printcolumn:name=Ranges,type=integer,JSONPath=`.status.summary.ranges`,description="The ranges that the policy has."
// +kubebuilder:printcolumn:name=Size,type=integer,JSONPath=`.status.summary.size`,description="Their usable addresses."
// +kubebuilder:printcolumn:name=Used,type=integer,JSONPath=`.status.summary.used`,description="Those in use."
// +kubebuilder:printcolumn:name=Free,type=integer,JSONPath=`.status.summary.free`,description="Those that a Service can get at once."
// +kubebuilder:printcolumn:name=Cooling,type=integer,JSONPath=`.status.summary.cooling`,description="Those that cool down."
// +kubebuilder:printcolumn:name=Reserved,type=integer,JSONPath=`.status.summary.reserved`,description="Those that reservations keep."
// +kubebuilder:printcolumn:name=Ready,type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="The condition Ready."
// +kubebuilder:printcolumn:name=Age,type=date,JSONPath=`.metadata.creationTimestamp`,description="The time since its creation."
// +kubebuilder:printcolumn:name=Priority,type=integer,JSONPath=`.spec.priority`,priority=1,description="Higher goes first."
// +kubebuilder:printcolumn:name=Exclusive,type=boolean,JSONPath=`.spec.exclusive`,priority=1,description="Keeps other Services out."
// +kubebuilder:printcolumn:name=Allocation,type=string,JSONPath=`.spec.allocation`,priority=1,description="Automatic, ByRequest or Cordoned."
// +kubebuilder:printcolumn:name=OnFull,type=string,JSONPath=`.spec.onFull`,priority=1,description="Fail or Fallback."
// +kubebuilder:printcolumn:name=CoolDown,type=string,JSONPath=`.spec.coolDown`,priority=1,description="How long addresses cool down."
type ServiceCIDRPolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is what is wanted.
	// +required
	Spec ServiceCIDRPolicySpec `json:"spec,omitempty"`
	// Status is what was found, written by the operator alone.
	// +optional
	Status ServiceCIDRPolicyStatus `json:"status,omitempty"`
}

// ServiceCIDRPolicyList is a list of policies.
//
// +kubebuilder:object:root=true
type ServiceCIDRPolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ServiceCIDRPolicy `json:"items"`
}

// +kubebuilder:validation:XValidation:rule="!has(self.serviceCIDRSelector) || !has(self.serviceCIDRs) || self.serviceCIDRs.size() == 0",message="set serviceCIDRs or serviceCIDRSelector, not both: remove one of them",fieldPath=".serviceCIDRSelector"
// +kubebuilder:validation:XValidation:rule="!self.exclusive || has(self.serviceCIDRSelector) || (has(self.serviceCIDRs) && self.serviceCIDRs.size() > 0)",message="exclusive is about the ranges of the policy: set serviceCIDRs or serviceCIDRSelector too, or remove it",fieldPath=".exclusive"
// +kubebuilder:validation:XValidation:rule="!has(self.allocation) || self.allocation == 'Automatic' || has(self.serviceCIDRSelector) || (has(self.serviceCIDRs) && self.serviceCIDRs.size() > 0)",message="allocation is about the ranges of the policy: set serviceCIDRs or serviceCIDRSelector too, or remove it",fieldPath=".allocation"
// +kubebuilder:validation:XValidation:rule="!has(self.coolDown) || has(self.serviceCIDRSelector) || (has(self.serviceCIDRs) && self.serviceCIDRs.size() > 0)",message="coolDown is about the ranges of the policy: set serviceCIDRs or serviceCIDRSelector too, or remove it",fieldPath=".coolDown"
// +kubebuilder:validation:XValidation:rule="!has(self.growth) || (has(self.serviceCIDRSelector) && has(self.serviceCIDRSelector.matchLabels) && self.serviceCIDRSelector.matchLabels.size() > 0 && (!has(self.serviceCIDRSelector.matchExpressions) || self.serviceCIDRSelector.matchExpressions.size() == 0))",message="the policy has the ServiceCIDRs that growth creates by their labels, which are those of its selector: set serviceCIDRSelector.matchLabels, without matchExpressions, and give the labels to the ServiceCIDRs that the policy has already",fieldPath=".growth"

// ServiceCIDRPolicySpec is what an admin wants.
type ServiceCIDRPolicySpec struct {
	// +kubebuilder:validation:items:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="give the name of a ServiceCIDR: lower-case letters, digits, '-' and '.', with a letter or digit at both ends and beside each '.'"

	// ServiceCIDRs are the names of the ServiceCIDR objects that the policy is about. One that does
	// not exist is waited for. Not together with ServiceCIDRSelector. A policy without either steers
	// no Service; it may have reservations.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=253
	ServiceCIDRs []string `json:"serviceCIDRs,omitempty"`
	// ServiceCIDRSelector selects ServiceCIDRs by label: ranges can come and go. Empty selects all.
	// +optional
	ServiceCIDRSelector *metav1.LabelSelector `json:"serviceCIDRSelector,omitempty"`
	// NamespaceSelector selects by labels the namespaces whose Services are steered. Left out: all.
	// +optional
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`
	// ServiceSelector selects by labels the Services that are steered. Left out: all of them.
	// +optional
	ServiceSelector *metav1.LabelSelector `json:"serviceSelector,omitempty"`
	// Exclusive: only Services that the policy selects get addresses of its ranges, drawn or chosen.
	// +optional
	// +kubebuilder:default=false
	Exclusive bool `json:"exclusive,omitempty"`
	// Allocation says how the addresses of the ranges are given out: of all ranges that the policy
	// has, whether it is exclusive or not, and whichever Services it selects. Of several policies that
	// have a range the strictest counts, whatever their priorities.
	//
	// Automatic: they are drawn for Services that choose none, and Services may choose them.
	//
	// ByRequest: none is drawn. A Service has to ask: it chooses the address, a reservation keeps it
	// for the Service, or the Service asks for an additional address of the ServiceCIDR.
	//
	// Cordoned: no Service is given one that it does not have, drawn, chosen or reserved. Services
	// keep those that they have, and can be changed. The policy does not grow.
	// +optional
	// +kubebuilder:default=Automatic
	Allocation Allocation `json:"allocation,omitempty"`
	// Enforcement says what keeps Services out of the ranges: those that an exclusive policy does not
	// select, and those that its allocation does not give an address. Without exclusive, and with
	// allocation: Automatic, it says nothing.
	//
	// APIServer: the API server itself, by a ValidatingAdmissionPolicy, whether the operator runs or
	// not. The price: while no webhook answers, the API server draws from a ServiceCIDR of its own
	// choice, and a creation for which it draws from one of these ranges is refused, and has to be
	// repeated. How many depends on how the API server walks a Go map, for as long as its process
	// lives: between 2 and 36 of 40 in a trial of ten processes, with one open range and one of these.
	// Services that exist keep their addresses.
	//
	// Webhook: the operator's webhook alone, which is weaker. What the webhook does not answer passes:
	// every Service while no replica of the operator answers in time, and a Service so large that it
	// does not arrive there in time. External IPs are not looked at.
	// +optional
	// +kubebuilder:default=APIServer
	Enforcement Enforcement `json:"enforcement,omitempty"`
	// AdditionalAddresses allows the Services that the policy selects to ask for additional addresses
	// of its ServiceCIDRs, by the annotation clusterip-operator.io/additional-ips-from: one of each
	// family from each of up to four ServiceCIDRs. A tenant that may write such a Service may take so
	// many addresses for it. A Service that is not allowed to is refused the annotation. When this is
	// taken back, or the policy deleted, a Service gets no new additional addresses. It keeps those
	// that it has, as it keeps its ClusterIPs, until it lets go of them.
	// +optional
	// +kubebuilder:default=false
	AdditionalAddresses bool `json:"additionalAddresses,omitempty"`
	// OnFull says what happens to a Service when its ranges are full: Fail refuses it, Fallback draws
	// from the next policy that selects it, and at last from ranges that no policy has exclusively.
	// +optional
	// +kubebuilder:default=Fallback
	OnFull OnFull `json:"onFull,omitempty"`
	// Priority orders policies, higher first. Equal priorities go by name, in alphabetical order.
	// +optional
	// +kubebuilder:default=0
	Priority int32 `json:"priority,omitempty"`

	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9]') && self.matches('^([0-9]{1,3}([.][0-9]{1,9})?h)?([0-9]{1,5}([.][0-9]{1,9})?m)?([0-9]{1,7}([.][0-9]{1,9})?s)?([0-9]{1,10}([.][0-9]{1,6})?ms)?$') && duration(self) <= duration('720h')",message="give a duration from 0s to 720h (30 days) in hours, minutes and seconds, such as 24h, 10m or 1m30s"

	// CoolDown is how long an address of the ranges cools down after its Service is gone, before
	// another Service gets it. Cooling addresses are given out early when nothing else is free,
	// first those of the namespace that has most. Of each family the latest 512 of a namespace cool
	// down. From 0s to 720h, which are 30 days.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=40
	CoolDown *metav1.Duration `json:"coolDown,omitempty"`
	// Reservations keep addresses free, in the policy's ranges or elsewhere: at most 1,024 in all.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=1024
	Reservations []Reservation `json:"reservations,omitempty"`
	// Growth has the operator create ServiceCIDRs with the labels of ServiceCIDRSelector before the
	// ranges are full. Left out: the admin alone makes ranges.
	// +optional
	Growth *Growth `json:"growth,omitempty"`
}

// SelectsByServiceLabelsAlone reports whether an exclusive policy keeps its ranges for Services by
// labels that the author of a Service chooses, so that it keeps no tenant out.
func (s *ServiceCIDRPolicySpec) SelectsByServiceLabelsAlone() bool {
	selects := func(by *metav1.LabelSelector) bool {
		return by != nil && len(by.MatchLabels)+len(by.MatchExpressions) > 0
	}
	return s.Exclusive && !selects(s.NamespaceSelector) && selects(s.ServiceSelector)
}

// Allocation is how the addresses of ranges are given out.
//
// +kubebuilder:validation:Enum=Automatic;ByRequest;Cordoned
type Allocation string

const (
	// AllocationAutomatic draws addresses, and lets Services choose them: the default.
	AllocationAutomatic Allocation = "Automatic"
	// AllocationByRequest draws none: a Service gets an address that it asks for.
	AllocationByRequest Allocation = "ByRequest"
	// AllocationCordoned gives out none. Services keep those that they have.
	AllocationCordoned Allocation = "Cordoned"
)

// Enforcement is what keeps Services out of ranges that are exclusive, by request only or cordoned.
//
// +kubebuilder:validation:Enum=Webhook;APIServer
type Enforcement string

const (
	// EnforcementWebhook is the operator's webhook alone: what it does not answer passes.
	EnforcementWebhook Enforcement = "Webhook"
	// EnforcementAPIServer is the API server itself, beside the webhook: the default.
	EnforcementAPIServer Enforcement = "APIServer"
)

// OnFull is what happens when no address is left.
//
// +kubebuilder:validation:Enum=Fail;Fallback
type OnFull string

const (
	// OnFullFail refuses the Service.
	OnFullFail OnFull = "Fail"
	// OnFullFallback goes to the next policy, and at last to ranges that no policy has exclusively.
	OnFullFallback OnFull = "Fallback"
)

// Reservation keeps addresses free.
//
// +kubebuilder:object:generate=false
type Reservation struct {
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="give a name of lower-case letters, digits and '-', with a letter or digit at both ends"

	// Name tells the reservations of a policy apart.
	// +required
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`

	// The last two rules compare the ends of a range. CEL has no order of addresses: IPv4 ones are
	// compared as numbers. IPv6 ones get eight groups (:: leaves one without a digit), and a group is
	// compared where both ends agree in all groups before it.
	// +kubebuilder:validation:XValidation:rule="isIP(self) || isCIDR(self) || (self.split('-').size() == 2 && isIP(self.split('-')[0]) && isIP(self.split('-')[1]))",message="give an address (10.96.0.10), a range of addresses (10.96.0.10-10.96.0.19) or a CIDR (10.96.0.16/28), without spaces, leading zeros and zones; write an IPv4 address as such, not inside of an IPv6 one"
	// +kubebuilder:validation:XValidation:rule="!isIP(self) || ip.isCanonical(self)",message="write the address in its shortest form, in lower case"
	// +kubebuilder:validation:XValidation:rule="!isCIDR(self) || string(cidr(self).masked()) == self",message="write the CIDR from its first address on, in the shortest form and in lower case"
	// +kubebuilder:validation:XValidation:rule="!isCIDR(self) || cidr(self).prefixLength() >= (cidr(self).ip().family() == 4 ? 22 : 118)",message="a policy keeps 1,024 addresses at most: make the CIDR /22 or smaller (IPv4), /118 or smaller (IPv6)"
	// +kubebuilder:validation:XValidation:rule="!(self.split('-').size() == 2 && isIP(self.split('-')[0]) && isIP(self.split('-')[1])) || (ip.isCanonical(self.split('-')[0]) && ip.isCanonical(self.split('-')[1]))",message="write both addresses in their shortest form, in lower case"
	// +kubebuilder:validation:XValidation:rule="!(self.split('-').size() == 2 && isIP(self.split('-')[0]) && isIP(self.split('-')[1])) || ip(self.split('-')[0]).family() == ip(self.split('-')[1]).family()",message="give a range whose ends are of one family, and a reservation for each family"
	// +kubebuilder:validation:XValidation:rule="!(self.split('-').size() == 2 && isIP(self.split('-')[0]) && isIP(self.split('-')[1])) || ip(self.split('-')[0]).family() != 4 || ip(self.split('-')[1]).family() != 4 || [self.split('-')[0], self.split('-')[1]].map(a, int(a.split('.')[0]) * 16777216 + int(a.split('.')[1]) * 65536 + int(a.split('.')[2]) * 256 + int(a.split('.')[3])).isSorted()",message="give the lower address of the range first, then the higher one"
	// +kubebuilder:validation:XValidation:rule="!(self.split('-').size() == 2 && isIP(self.split('-')[0]) && isIP(self.split('-')[1])) || ip(self.split('-')[0]).family() != 6 || ip(self.split('-')[1]).family() != 6 || !ip.isCanonical(self.split('-')[0]) || !ip.isCanonical(self.split('-')[1]) || [self.split('-')[0].replace('::', ':0:0:0:0:0'.substring(0, 16 - 2 * self.split('-')[0].split(':').size()) + '::')].all(x, [self.split('-')[1].replace('::', ':0:0:0:0:0'.substring(0, 16 - 2 * self.split('-')[1].split(':').size()) + '::')].all(y, [0, 1, 2, 3, 4, 5, 6, 7].all(i, !cidr(self.split('-')[0] + '/' + ['0', '16', '32', '48', '64', '80', '96', '112'][i]).containsIP(self.split('-')[1]) || ('0000' + x.split(':')[i]).substring(x.split(':')[i].size()) <= ('0000' + y.split(':')[i]).substring(y.split(':')[i].size()))))",message="give the lower address of the range first, then the higher one"

	// Address is what is kept: an address (10.96.0.10), a range (10.96.0.10-10.96.0.19) or a CIDR
	// (10.96.0.16/28), in shortest form and lower case. A CIDR begins with its first address.
	// +required
	// +kubebuilder:validation:MaxLength=79
	Address string `json:"address"`

	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?/[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$')",message="give the namespace and the name of a Service, such as shop/cart, or leave it out"

	// For is the Service, namespace/name, that may have the address. It gets one without asking when
	// it is created. Left out: no Service may.
	// +optional
	// +kubebuilder:validation:MaxLength=127
	For string `json:"for,omitempty"`
}

// Condition types of a ServiceCIDRPolicy.
const (
	// PolicyAccepted is True if the spec can be followed, or False: Invalid, and the message says why.
	PolicyAccepted = "Accepted"
	// PolicyConflicting is True when another policy wins part of what this one wants; see its message.
	PolicyConflicting = "Conflicting"
	// PolicyReady sums up the others, for tools that wait for it: True when the policy is Accepted and
	// Programmed, and Enforced where it asks for that; Unknown while what it lacks is on its way;
	// False with the reason and the message of the condition that an admin has to look at.
	PolicyReady = "Ready"
	// PolicyProgrammed is True when the policy has all ranges and reservations that it asks for, and
	// they are ready; False names what is not in place, and which policy or object has it.
	PolicyProgrammed = "Programmed"
	// PolicyEnforced is there with enforcement: APIServer. It is True when the API server has what it
	// needs to keep other Services out; False says why it has not.
	PolicyEnforced = "Enforced"
	// PolicyViolated is True while Services have addresses kept from them; its message has the first.
	PolicyViolated = "Violated"
	// ReasonPending is that of PolicyEnforced while the API server is about to be told.
	ReasonPending = "Pending"
	// PolicyGrowing is there with growth. It is True while a new range is on its way. False says what
	// the next one will be, or why there is none although one is needed; and which ranges could go.
	PolicyGrowing = "Growing"
	// ReasonCreationFailed is that of PolicyGrowing when the API server has refused a range.
	ReasonCreationFailed = "CreationFailed"
	// PolicyGrowthExhausted is there with growth. It is True when no further range can be created,
	// needed or not; the message says why, and what to do.
	PolicyGrowthExhausted = "GrowthExhausted"
)

// ServiceCIDRPolicyStatus is what the operator found.
type ServiceCIDRPolicyStatus struct {
	// ObservedGeneration is the generation of the spec that the conditions speak of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Conditions are Ready, Accepted, Conflicting and Programmed; with enforcement: APIServer also
	// Enforced, with growth also Growing and GrowthExhausted; and Violated where there is cause.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// Summary is the sum over all ranges. Reserved also counts the addresses that the reservations of
	// this policy keep in other ranges.
	// +optional
	Summary PolicySummary `json:"summary,omitempty"`
	// Ranges are the ranges that the policy has, in the order of their CIDRs.
	// +optional
	// +listType=map
	// +listMapKey=serviceCIDR
	// +listMapKey=cidr
	Ranges []PolicyRange `json:"ranges,omitempty"`
	// Refusals are the latest refusals in the name of this policy, the latest first, folded by
	// namespace and reason: ten at most. Of more, the oldest of the namespace that has the most goes,
	// so that no tenant hides those of another.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10
	Refusals []PolicyRefusal `json:"refusals,omitempty"`
}

// PolicySummary counts the addresses of a policy. Sizes beyond 2^63-1 (IPv6) are given as 2^63-1.
//
// +kubebuilder:object:generate=false
type PolicySummary struct {
	// Ranges is the number of ranges (CIDRs) that the policy has.
	Ranges     int32 `json:"ranges"`
	BandStatus `json:",inline"`
}

// BandStatus counts addresses by what they are used for.
//
// +kubebuilder:object:generate=false
type BandStatus struct {
	// Size is the number of usable addresses.
	Size int64 `json:"size"`
	// Used are those of Services, and of IPAddresses of other managers.
	Used int64 `json:"used"`
	// Free are those that a Service can get at once.
	Free int64 `json:"free"`
	// Cooling are those that cool down after their Service is gone.
	Cooling int64 `json:"cooling"`
	// Reserved are those that reservations keep.
	Reserved int64 `json:"reserved"`
}

// PolicyRange is a range that the policy has.
//
// +kubebuilder:object:generate=false
type PolicyRange struct {
	// CIDR is the range.
	CIDR string `json:"cidr"`
	// ServiceCIDR is the object that offers it.
	ServiceCIDR string `json:"serviceCIDR"`
	// Dynamic is its upper band, from which addresses are drawn first (KEP-3070).
	Dynamic BandStatus `json:"dynamic"`
	// Static is its lower band, which is meant for addresses that people choose.
	Static BandStatus `json:"static"`
}

// PolicyRefusal are the Services of one namespace that were refused for one reason. It speaks to
// admins: users are told less than the message says, and never which other Service has an address.
type PolicyRefusal struct {
	// Time is when the last of them was refused.
	Time metav1.MicroTime `json:"time"`
	// First is when the first of them was refused; left out where there is one.
	// +optional
	First *metav1.MicroTime `json:"first,omitempty"`
	// Count is their number; left out for one. A write whose answer was lost may count twice.
	// +optional
	Count int64 `json:"count,omitempty"`
	// Service is the last of them, namespace/name. An asterisk follows a name still to be generated.
	// +kubebuilder:validation:MaxLength=128
	Service string `json:"service"`
	// Message is the reason. Characters that would steer a terminal are taken out.
	// +kubebuilder:validation:MaxLength=256
	Message string `json:"message"`
}
