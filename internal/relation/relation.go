// Package relation judges the relation of KEP-1880: each ClusterIP has one IPAddress, which names
// the Service that has the right to the address. Everything here is a pure function.
//
// The controller ipaddress and the migration go by it. How long a state must last, and what is left
// to other managers, each of them says itself.
package relation

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/internal/upstream"
)

// State is how the IPAddress of an address stands to the Service that has the right to it.
type State int

// The states, and what mends them.
const (
	InOrder     State = iota // also a reservation: no Service has the address, and it is no allocator's
	Missing                  // the Service has no IPAddress: create it
	Unclaimed                // no Service has the address of an allocator's IPAddress: delete it
	WrongParent              // it does not name the Service: replace it, for the parent is immutable
	WrongLabels              // it lacks the labels by which API servers know their own: relabel it
)

// Of judges an address. The owner is the first of Rank, zero if no Service claims the address; o is
// nil without an IPAddress.
func Of(a netip.Addr, owner types.NamespacedName, o *IPAddress) State {
	claimed := owner.Name != ""
	switch {
	case o == nil && claimed:
		return Missing
	case o == nil, !claimed && o.ManagedBy != v1alpha1.ManagedByAPIServer:
		return InOrder
	case !claimed:
		return Unclaimed
	case o.Service != owner:
		return WrongParent
	case o.ManagedBy != v1alpha1.ManagedByAPIServer, o.Family != allocator.FamilyOf(a).String():
		return WrongLabels
	default:
		return InOrder
	}
}

// IPAddress is what matters of an IPAddress.
type IPAddress struct {
	Address         netip.Addr
	UID             types.UID
	ResourceVersion string
	Created         time.Time
	ManagedBy       string
	Family          string
	Service         types.NamespacedName // the parent if it is a Service, zero otherwise
	Deleting        bool
	ByAPIServer     bool // an API server that allocates from IPAddresses wrote it
	Finalizers      []string
}

// NewIPAddress is not ok for a name that is no canonical address, which no API server accepts.
func NewIPAddress(o *networkingv1.IPAddress) (ip IPAddress, ok bool) {
	a, err := netip.ParseAddr(o.Name)
	return IPAddress{
		Address: a, UID: o.UID, ResourceVersion: o.ResourceVersion, Created: o.CreationTimestamp.Time,
		ManagedBy: o.Labels[networkingv1.LabelManagedBy], Family: o.Labels[networkingv1.LabelIPAddressFamily],
		Service: upstream.Service(o), Deleting: !o.DeletionTimestamp.IsZero(), ByAPIServer: upstream.WrittenByAPIServer(o),
		Finalizers: o.Finalizers,
	}, err == nil
}

// Foreign reports whether the label says that another manager than the API server keeps the object.
func (o *IPAddress) Foreign() bool {
	return o.ManagedBy != "" && o.ManagedBy != v1alpha1.ManagedByAPIServer
}

// Grace is the API server's request time-out: how long it may take from an IPAddress, which it
// writes first, to the Service.
const Grace = time.Minute

// Underway is what is left of the grace, not positive if it is over. In a cluster that allocates
// from the bitmap only an object that an API server wrote has one, as when the cluster is about to
// flip: the operator and the migration write IPAddresses after their Services.
func (o *IPAddress) Underway(now time.Time, bitmap bool) time.Duration {
	if bitmap && !o.ByAPIServer {
		return 0
	}
	return Grace - now.Sub(o.Created)
}

// Claim is what decides about the right of a Service to an address.
type Claim struct {
	Service  types.NamespacedName
	Created  time.Time
	Misspelt bool // the Service writes the address otherwise than its IPAddress is named
}

// Rank orders the Services that claim an address, the rightful owner first: the first to have it
// keeps it, and names break ties of a second. A Service that misspells the address comes after the
// rest, whatever its age, for API servers keep no IPAddress that names it.
func Rank[S any](services []S, claim func(S) Claim) {
	slices.SortFunc(services, func(s, t S) int {
		a, b := claim(s), claim(t)
		switch {
		case a.Misspelt == b.Misspelt:
			return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.Service.String(), b.Service.String()))
		case a.Misspelt:
			return 1
		default:
			return -1
		}
	})
}
