package steering

import (
	"cmp"
	"iter"
	"net/netip"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/internal/addressindex"
)

// Inputs are what policies are compiled of; the zero Inputs have no policies and no ranges.
type Inputs struct {
	// Policies are all policies, in any order. They are read, never changed.
	Policies []*v1alpha1.ServiceCIDRPolicy
	// ServiceCIDRs are all ServiceCIDRs, in any order.
	ServiceCIDRs []addressindex.ServiceCIDR
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
	// Ranges are those that the policy draws from: ready, and not lost to a better policy. An
	// exclusive policy also closes ranges that are not ready yet, or are being deleted.
	Ranges []PolicyRange
	// Reservations are what is left of them after better policies had theirs.
	Reservations []Reservation
	Exclusive    bool
	// Allocation is how the policy has addresses of its ranges given out; see Compiled.Restriction.
	Allocation v1alpha1.Allocation
	// Enforcement is what keeps other Services out of the ranges.
	Enforcement v1alpha1.Enforcement
	// Grows: the operator creates ServiceCIDRs for the policy.
	Grows bool
	// AdditionalAddresses: the Services it selects may have additional addresses of its ServiceCIDRs.
	AdditionalAddresses bool
	// Claimed are the prefixes of all its ranges, in order, also those not ready or being deleted.
	Claimed []netip.Prefix
	OnFull  v1alpha1.OnFull
	// CoolDown is how long freed addresses of the ranges cool down.
	CoolDown time.Duration
	// Invalid says what is wrong with the spec, Conflicts what a better policy won.
	Invalid, Conflicts []string
	// Lost are those of the Conflicts by which the policy does not have an address or a range at all.
	Lost []string
	// Standing says by which form the policy is followed, FollowedGeneration which generation that is.
	Standing           Standing
	FollowedGeneration int64
	// Missing, Unready and Deleting are ServiceCIDRs that it asks for; Unready also where it reserves.
	Missing, Unready, Deleting []string

	// object is the spec as the cluster has it, form as it is followed: nil if none can be read.
	object, form *v1alpha1.ServiceCIDRPolicy
	// wanted are the existing ranges that the policy asks for, whichever policy gets them.
	wanted   []wantedRange
	priority int32
	// contested: another policy, or Service default/kubernetes, has a part of what it reserves.
	contested bool
	// steers: the policy asks for ranges, whether they exist or not.
	steers   bool
	selector selector
	bands    map[allocator.Family]*policyBands // of the families of which it has ranges
}

// Object returns the name, UID, generation and spec of the policy as the cluster has them, be they
// followed or not. Do not change it.
func (p *Policy) Object() *v1alpha1.ServiceCIDRPolicy { return p.object }

// byRank sorts policies, the best first: of the highest priority, and of equals the first by name.
// Their ages do not count: a restore from a backup creates all policies anew, in any order.
func byRank(a, b *Policy) int {
	return cmp.Or(cmp.Compare(b.priority, a.priority), cmp.Compare(a.Name, b.Name))
}

// outranks reports whether a policy is better than another one.
func (p *Policy) outranks(other *Policy) bool { return byRank(p, other) < 0 }

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
	// For is the Service that may have the addresses; zero if no Service may.
	For types.NamespacedName
}

// Addresses yields the addresses of a reservation, at most the 1,024 that one policy can reserve.
func (r Reservation) Addresses() iter.Seq[netip.Addr] {
	return func(yield func(netip.Addr) bool) {
		for a := r.Span.First; r.Span.Contains(a) && yield(a); a = a.Next() {
		}
	}
}
