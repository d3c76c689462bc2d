package steering

import (
	"net/netip"
	"slices"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
)

// Inputs is what a Compiled is made of. The zero Inputs is a cluster without policies and ranges.
type Inputs struct {
	// Policies are all policies, in any order. They are read, never changed.
	Policies []*v1alpha1.ServiceCIDRPolicy
	// ServiceCIDRs are all ServiceCIDRs, in any order.
	ServiceCIDRs []ServiceCIDR
}

// ServiceCIDR is what matters of a ServiceCIDR object.
type ServiceCIDR struct {
	Name   string
	Labels map[string]string
	Ranges []allocator.Range
	// Ready: API servers allocate from it. Terminating: its deletion was asked for.
	Ready, Terminating bool
}

// usable reports whether addresses may be given out.
func (c ServiceCIDR) usable() bool { return c.Ready && !c.Terminating }

// family returns the ranges of one family.
func (c ServiceCIDR) family(is4 bool) []allocator.Range {
	return slices.DeleteFunc(slices.Clone(c.Ranges), func(r allocator.Range) bool { return r.Prefix().Addr().Is4() != is4 })
}

// NewServiceCIDR reads a ServiceCIDR. What is no range is left out.
func NewServiceCIDR(o *networkingv1.ServiceCIDR) ServiceCIDR {
	c := ServiceCIDR{
		Name: o.Name, Labels: o.Labels, Terminating: !o.DeletionTimestamp.IsZero(),
		// Without the condition API servers allocate: nobody runs the controller that sets it.
		Ready: !meta.IsStatusConditionFalse(o.Status.Conditions, networkingv1.ServiceCIDRConditionReady) &&
			!meta.IsStatusConditionPresentAndEqual(o.Status.Conditions, networkingv1.ServiceCIDRConditionReady, metav1.ConditionUnknown),
	}
	for _, text := range o.Spec.CIDRs {
		if r, err := allocator.ParseRange(text); err == nil {
			c.Ranges = append(c.Ranges, r)
		}
	}
	return c
}

// Service is what policies see of a Service.
type Service struct {
	types.NamespacedName
	NamespaceLabels, Labels map[string]string
}

// Policy is a policy after conflicts are settled. Do not change it.
type Policy struct {
	Name       string
	UID        types.UID
	Generation int64
	// Ranges are those that the policy draws from: ready, and not lost to a better policy. An exclusive policy keeps others out of more: also of
	// ranges that are not ready yet, or are being deleted.
	Ranges []PolicyRange
	// Reservations are what is left of them after better policies had theirs.
	Reservations []Reservation
	Exclusive    bool
	// Enforcement is who keeps others out of an exclusive policy's ranges.
	Enforcement v1alpha1.Enforcement
	// Claimed are the prefixes of all ranges that the policy has, in order: those of Ranges, and those that are not ready yet or are being deleted.
	Claimed []netip.Prefix
	OnFull  v1alpha1.OnFull
	// CoolDown is how long freed addresses of the ranges rest.
	CoolDown time.Duration
	// Invalid says what is wrong with the spec, Conflicts what a better policy won.
	Invalid, Conflicts []string
	// Missing, Unready and Deleting are names of ServiceCIDRs that the policy asks for.
	Missing, Unready, Deleting []string

	// rank is the place among all policies, 0 for the best.
	rank int
	// steers: the policy asks for ranges, whether they exist or not.
	steers   bool
	selector selector
	bands    map[bool]func() bands // of the families of which it has ranges, true for IPv4
}

// PolicyRange is a range that a policy has.
type PolicyRange struct {
	ServiceCIDR string
	Range       allocator.Range
}

// Reservation is a run of addresses that a policy keeps.
type Reservation struct {
	Policy    string
	PolicyUID types.UID
	Name      string
	Span      allocator.Span
	// For is the Service that may have the addresses; zero for nobody.
	For types.NamespacedName
}

// Refusal says in whose name a Service may not have what it asks for, and what its user is told.
type Refusal struct {
	Policy, Message string
}

// has reports whether the policy has a range of the family.
func (p *Policy) has(is4 bool) bool {
	return slices.ContainsFunc(p.Ranges, func(r PolicyRange) bool { return r.Range.Prefix().Addr().Is4() == is4 })
}

// steersFamily reports whether the policy decides about addresses of a family: it has ranges of it, or it has none at all although
// it asks for some.
func (p *Policy) steersFamily(is4 bool) bool {
	return p.steers && (len(p.Ranges) == 0 || p.has(is4))
}
