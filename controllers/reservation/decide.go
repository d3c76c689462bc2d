package reservation

import (
	"maps"
	"net/netip"
	"slices"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/internal/addressindex"
	"github.com/clusterip-operator/clusterip-operator/internal/steering"
	"github.com/clusterip-operator/clusterip-operator/internal/upstream"
)

const (
	// inMemory is how long a freed address cools in memory alone: a Service that is deleted and
	// created anew takes it back without a write on our side.
	inMemory = time.Second
	// skew is how far the clocks of two replicas may be apart. A replica by whose clock an IPAddress
	// goes before its time is up would think that the address is being handed out.
	skew = 500 * time.Millisecond
	// unknownFor is how long an IPAddress of ours with an unknown purpose is left alone. Another
	// version of the operator may use it for a moment.
	unknownFor = 30 * time.Second
)

// inputs is everything that is known about one address. decide reads nothing else.
type inputs struct {
	now     time.Time
	address netip.Addr
	// object is the IPAddress, of any manager; nil without one.
	object *networkingv1.IPAddress
	// claimed: a Service has the address in its spec.
	claimed bool
	// covered: some ServiceCIDR has the address; offered: one that is not being deleted.
	covered, offered bool
	// reservation is the one that the address belongs to, nil without one.
	reservation *steering.Reservation
	// freed is who had the address until a short while ago, nil when it does not cool.
	freed *addressindex.CoolDown
	// coolDown is how long the address cools, in the name of policy cooler; 0 and nil for not at all.
	coolDown time.Duration
	cooler   *steering.Policy
}

// action is what becomes of an IPAddress.
type action int

const (
	leave   action = iota
	create         // write it
	remove         // delete it
	replace        // delete it and write it anew
	relabel        // write labels, annotations and owner back
)

// decision is what to do about an address.
type decision struct {
	do action
	// want is the desired IPAddress, nil for none.
	want *networkingv1.IPAddress
	// again asks for another decision later, when a time is over.
	again time.Duration
}

// decide says what to do about one address.
func decide(in inputs) decision {
	want, again := desired(in)
	switch o := in.object; {
	case o == nil && want == nil:
		return decision{again: again}
	case o == nil:
		return decision{create, want, again}
	case !o.DeletionTimestamp.IsZero(), !upstream.HeldForNoService(o):
		return decision{} // not ours to change; when it goes we are told
	case upstream.Policy(o) == "" && !known(purpose(o)) && in.age() < unknownFor:
		return decision{again: unknownFor - in.age()}
	case want == nil:
		return decision{remove, nil, again}
	default:
		return decision{difference(o, want), want, again}
	}
}

// age is how long ago the IPAddress was created.
func (in inputs) age() time.Duration { return in.now.Sub(in.object.CreationTimestamp.Time) }

// desired is the IPAddress that should stand at the address, nil for none, and when that may change
// by itself. A reservation comes before a cool-down. It stays while its range is being deleted, and
// holds it, for an admin has asked for it; an address that merely cools holds no Service up. A
// surplus one is over: no skew of clocks matters, as another replica sees what made it surplus
// before it sees the deletion.
func desired(in inputs) (want *networkingv1.IPAddress, again time.Duration) {
	switch r := in.reservation; {
	case in.claimed:
		return nil, 0
	case r != nil:
		inPlace := in.object != nil && upstream.HeldForNoService(in.object) && purpose(in.object) != v1alpha1.PurposeCooling
		if in.offered || in.covered && inPlace {
			want = reserve(in.address, *r)
		}
		return want, 0
	case in.freed == nil || in.freed.Surplus || !in.offered || in.coolDown <= 0:
		return nil, 0
	}
	switch age := in.now.Sub(in.freed.Released); {
	case in.object == nil && age < inMemory:
		return nil, inMemory - age
	case in.object == nil && age >= in.coolDown, age >= in.coolDown+skew:
		return nil, 0
	default:
		return cool(in.address, *in.freed, in.cooler), in.coolDown + skew - age
	}
}

// purpose is what the label says, true or not.
func purpose(o *networkingv1.IPAddress) string { return o.Labels[v1alpha1.LabelPurpose] }

// known reports whether a purpose is one that this controller writes.
func known(purpose string) bool {
	return purpose == v1alpha1.PurposeReservation || purpose == v1alpha1.PurposeCooling
}

// difference says how an object becomes what is wanted. What another policy owns, or was written
// for another purpose, is made anew: parents are immutable, and a stale annotation has no owner. So
// is what the garbage collector would take with another owner, as an earlier policy of that name.
func difference(o, want *networkingv1.IPAddress) action {
	another := func(ref metav1.OwnerReference) bool { return ref.UID != want.OwnerReferences[0].UID }
	switch {
	case upstream.Policy(o) != upstream.Policy(want), known(purpose(o)) && purpose(o) != purpose(want), slices.ContainsFunc(o.OwnerReferences, another):
		return replace
	case !within(want.Labels, o.Labels), !within(want.Annotations, o.Annotations), len(o.OwnerReferences) == 0:
		return relabel
	default:
		return leave
	}
}

// within reports whether all of want is in have.
func within(want, have map[string]string) bool { return maps.Equal(labels.Merge(have, want), have) }

// reserve is the IPAddress of a reserved address.
func reserve(a netip.Addr, r steering.Reservation) *networkingv1.IPAddress {
	return ipAddress(a, r.Policy, r.PolicyUID, v1alpha1.PurposeReservation, map[string]string{v1alpha1.AnnotationReservation: r.Name})
}

// cool is the IPAddress of a cooling address.
func cool(a netip.Addr, freed addressindex.CoolDown, by *steering.Policy) *networkingv1.IPAddress {
	return ipAddress(a, by.Name, by.UID, v1alpha1.PurposeCooling, map[string]string{
		v1alpha1.AnnotationLastService: freed.Service.String(),
		v1alpha1.AnnotationReleased:    freed.Released.UTC().Format(time.RFC3339Nano),
	})
}

func ipAddress(a netip.Addr, policy string, uid types.UID, purpose string, annotations map[string]string) *networkingv1.IPAddress {
	return &networkingv1.IPAddress{
		ObjectMeta: metav1.ObjectMeta{
			Name: a.String(), Annotations: annotations,
			Labels: map[string]string{
				networkingv1.LabelIPAddressFamily: allocator.FamilyOf(a).String(),
				networkingv1.LabelManagedBy:       v1alpha1.ManagedByOperator,
				v1alpha1.LabelPurpose:             purpose,
			},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: v1alpha1.GroupVersion.String(), Kind: "ServiceCIDRPolicy", Name: policy, UID: uid,
			}},
		},
		Spec: networkingv1.IPAddressSpec{ParentRef: &networkingv1.ParentReference{
			Group: v1alpha1.Prefix, Resource: v1alpha1.Resource, Name: policy,
		}},
	}
}
