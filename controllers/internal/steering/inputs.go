package steering

import (
	"iter"
	"net/netip"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/controllers/internal/addressindex"
)

// Inputs are what policies are compiled of. The zero Inputs are those of a cluster without policies and ranges.
type Inputs struct {
	// Policies are all policies, in any order. They are read, never changed.
	Policies []*v1alpha1.ServiceCIDRPolicy
	// ServiceCIDRs are all ServiceCIDRs, in any order.
	ServiceCIDRs []addressindex.ServiceCIDR
	// LastReadable are earlier forms of policies, by UID, whose selectors could be read. One counts
	// where those of the present form cannot. Nothing in the cluster keeps them: a process that has
	// just started knows none.
	LastReadable map[types.UID]*v1alpha1.ServiceCIDRPolicy
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
	// Grows: the operator creates ServiceCIDRs for the policy.
	Grows bool
	// AdditionalAddresses: the Services that the policy selects may have additional addresses of
	// its ServiceCIDRs.
	AdditionalAddresses bool
	// Claimed are the prefixes of all ranges that the policy has, in order: those of Ranges, and those that are not ready yet or are being deleted.
	Claimed []netip.Prefix
	OnFull  v1alpha1.OnFull
	// CoolDown is how long freed addresses of the ranges cool down.
	CoolDown time.Duration
	// Invalid says what is wrong with the spec, Conflicts what a better policy won.
	Invalid, Conflicts []string
	// Standing says by which form of it the policy is followed; FollowedGeneration is the
	// generation of that form.
	Standing           Standing
	FollowedGeneration int64
	// Missing, Unready and Deleting are names of ServiceCIDRs that the policy asks for; Unready also of those that it reserves addresses in.
	Missing, Unready, Deleting []string

	// object is the policy as the cluster has it, form as it is followed: nil without any form that
	// can be read.
	object, form *v1alpha1.ServiceCIDRPolicy
	// wanted are the ranges that the policy asks for and that exist, whoever gets them.
	wanted []wantedRange
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

// Addresses yields the addresses of a reservation, which are 1,024 at most: no policy can reserve more.
func (r Reservation) Addresses() iter.Seq[netip.Addr] {
	return func(yield func(netip.Addr) bool) {
		for a := r.Span.First; r.Span.Contains(a) && yield(a); a = a.Next() {
		}
	}
}
