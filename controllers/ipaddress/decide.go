package ipaddress

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/internal/drift"
	"github.com/clusterip-operator/clusterip-operator/internal/relation"
	"github.com/clusterip-operator/clusterip-operator/internal/steering"
	"github.com/clusterip-operator/clusterip-operator/internal/upstream"
)

// revertGrace covers the creation of a Service that exists: the API server takes its IPAddress back
// at once. Its own repair loop (upstream's repairip.go) has this grace beside relation.Grace.
const revertGrace = 5 * time.Second

// How long an IPAddress must be missing before the API server is asked about its Service: a while
// if that is younger than settled, as the watch may lag; hardly if older: then it was deleted.
const (
	settled        = 5 * time.Second
	confirmCreated = 500 * time.Millisecond
	confirmDeleted = 50 * time.Millisecond
)

// confirmRestored is how long a Service must hold an address after its IPAddress was restored,
// before that is reported: an API server deletes the IPAddress of an update before it writes the
// Service (upstream's alloc.go), and then the restored one is one too many.
const confirmRestored = 5 * time.Second

// handoverWithin is how long two Services may have an address because one hands it to the other: a
// run takes seconds, and one that was killed is run again.
const handoverWithin = 10 * time.Minute

// action is what becomes of an IPAddress, in the words of a Finding.
type action string

const (
	leave   action = ""
	create  action = "create"  // write it for the owner
	remove  action = "delete"  // delete it
	replace action = "replace" // delete it and write it for the owner: the parent of an IPAddress is immutable
	relabel action = "relabel" // write the allocator's labels back
	report  action = "report"  // it was written before, and was right
)

// Reasons of events, upstream's where it has one, so that alerts on them carry over.
const (
	reasonNotAllocated        = "ClusterIPNotAllocated"
	reasonAlreadyAllocated    = "ClusterIPAlreadyAllocated"
	reasonIPAddressUnclaimed  = "IPAddressNotAllocated"
	reasonIPAddressWrongOwner = "IPAddressWrongReference"
)

// decision is what is wrong with an address and what to do about it.
type decision struct {
	drift drift.Type
	do    action
	// confirm is how long the drift must last before the API server is asked about it.
	confirm time.Duration
	// again asks for another decision later, when a grace is over. Nothing is wrong until then.
	again time.Duration
	// reason and note are the event for the rightful owner, or, without any, for the IPAddress.
	reason, note string
	// losers hold the address without right; they get the event to be created anew.
	losers []*corev1.Service
}

// decide says what is wrong with one address.
func decide(in inputs) decision {
	if in.object == nil {
		return decideMissing(in)
	}
	switch state := in.state(); {
	case !in.object.DeletionTimestamp.IsZero():
		return decision{} // a finalizer holds it; when that goes it is missing, or gone
	case in.handedOver():
		return decideHandover(in)
	case in.restored && in.named(in.owner()):
		return missing(in, report, confirmRestored)
	case in.restored && len(in.claims) == 0:
		return decision{do: remove} // the API server was about to write the Service without it, and would have found its IPAddress gone
	case state == relation.Unclaimed:
		return decideUnclaimed(in)
	case state == relation.WrongParent && in.view().Foreign():
		// It is the other manager's to give up.
		return decision{drift: drift.WrongParent, confirm: 5 * time.Second, reason: reasonNotAllocated, losers: in.claims[1:],
			note: fmt.Sprintf("is held by an IPAddress managed by %q; delete that IPAddress or create the Service anew", in.object.Labels[networkingv1.LabelManagedBy])}
	case len(in.claims) > 1:
		return decideDuplicate(in, state)
	case state == relation.WrongParent && in.bitmap && upstream.ManagedByAPIServer(in.object):
		return afterGrace(in.underway(), decision{do: replace}) // the daily work of this mode: the bitmap gave the address to another Service
	case state == relation.WrongParent:
		return decision{drift: drift.WrongParent, do: replace, confirm: time.Second,
			reason: reasonNotAllocated, note: "had an IPAddress with another parent; repaired"}
	case state == relation.WrongLabels:
		return decision{drift: drift.WrongLabels, do: relabel, confirm: 5 * time.Second,
			reason: reasonNotAllocated, note: "had lost the labels of the allocator; repaired"}
	default:
		return decision{}
	}
}

// decideMissing is for an address without IPAddress. Out of every range it is the service
// controller's case: an IPAddress would not make it routable, and upstream creates none.
//
// Until the IPAddress is back, an API server may give the address to another Service for good. So
// it is restored at once where that makes sense, and reported once proven right. The watches may
// swap the order of a new Service and its IPAddress, and get some time. An older Service had an
// IPAddress: a client deleted it, or an API server is about to write an ExternalName or one family.
func decideMissing(in inputs) decision {
	switch {
	case in.owner() == nil || !in.offered:
		return decision{}
	case in.bitmap:
		return decision{do: create} // the daily work of this mode, no drift
	case in.now.Sub(in.owner().CreationTimestamp.Time) < settled:
		return missing(in, create, confirmCreated)
	default:
		return missing(in, create, confirmDeleted)
	}
}

// missing is drift of a Service that had no IPAddress, or has none.
func missing(in inputs, do action, confirm time.Duration) decision {
	return decision{drift: drift.Missing, do: do, confirm: confirm, losers: in.claims[1:], reason: reasonNotAllocated, note: "was not allocated; repaired"}
}

// decideUnclaimed is for an IPAddress of the allocator whose address no Service holds.
func decideUnclaimed(in inputs) decision {
	switch {
	case in.renumbering(), slices.ContainsFunc(in.misspelt, in.named):
		// A misspelt one the API server deletes and creates in turns; the service controller tells why.
		return decision{}
	case upstream.Service(in.object).Name == "":
		return decision{drift: drift.WrongParent, do: remove, confirm: 5 * time.Second,
			reason: reasonIPAddressUnclaimed, note: "does not name a Service; deleted"}
	case in.bitmap:
		return afterGrace(in.underway(), decision{do: remove, confirm: 500 * time.Millisecond})
	case in.parent == nil:
		return afterGrace(in.underway(), decision{drift: drift.Orphan, do: remove, confirm: 5 * time.Second,
			reason: reasonIPAddressUnclaimed, note: fmt.Sprintf("had leaked, Service %s does not exist; deleted", upstream.Service(in.object))})
	case in.parent.Spec.Type == corev1.ServiceTypeExternalName && in.underway() > 0:
		// A Service that turns from ExternalName to ClusterIP gets its IPAddress before its update.
		return decision{again: in.underway()}
	default:
		// Of two requests that create one Service, the loser's IPAddress is younger than the Service, and
		// the API server takes it back.
		var grace time.Duration
		if in.object.CreationTimestamp.After(in.parent.CreationTimestamp.Time) {
			grace = revertGrace - in.now.Sub(in.object.CreationTimestamp.Time)
		}
		return afterGrace(grace, decision{drift: drift.WrongParent, do: remove, confirm: 5 * time.Second,
			reason: reasonIPAddressWrongOwner, note: fmt.Sprintf("names Service %s, which does not hold it; deleted", upstream.Service(in.object))})
	}
}

// afterGrace holds a decision back while the grace lasts.
func afterGrace(left time.Duration, d decision) decision {
	if left > 0 {
		return decision{again: left}
	}
	return d
}

// decideHandover is for the moment in which both Services of a handover have the address. It counts
// from the IPAddress: each way, it is written anew for the second Service or for the first again.
// What a killed command has left is told, and left to the next run of its plan.
func decideHandover(in inputs) decision {
	return afterGrace(handoverWithin-in.now.Sub(in.object.CreationTimestamp.Time), decision{drift: drift.Duplicate, confirm: time.Second,
		reason: reasonAlreadyAllocated, note: "is of two Services, for `kubectl clusterip renumber` has not ended its handover: have an administrator run the plan again"})
}

// decideDuplicate gives the address to the Service that held it first, and tells the losers.
func decideDuplicate(in inputs, state relation.State) decision {
	d := decision{drift: drift.Duplicate, confirm: time.Second, losers: in.claims[1:]}
	switch state {
	case relation.WrongParent:
		d.do = replace
		d.reason, d.note = reasonNotAllocated, "was allocated to a younger Service; repaired"
	case relation.WrongLabels:
		d.do = relabel
	}
	return d
}

// inputs is everything that is known about one address. decide reads nothing else.
type inputs struct {
	now     time.Time
	address netip.Addr
	// object is the IPAddress, nil without one.
	object *networkingv1.IPAddress
	// claims are the Services that hold the address, the rightful owner first: see ranked.
	claims []*corev1.Service
	// misspelt are Services with the address in another spelling, if none has it in the right one.
	misspelt []*corev1.Service
	// parent is the Service that object names, nil when there is none.
	parent *corev1.Service
	// offered: some ServiceCIDR has the address.
	offered bool
	// bitmap: the API server allocates from the bitmap in etcd and writes no IPAddress, so we do.
	bitmap bool
	// restored: object was missing, we wrote it a moment ago, and have not reported it yet.
	restored bool
}

func key(s *corev1.Service) types.NamespacedName {
	return types.NamespacedName{Namespace: s.Namespace, Name: s.Name}
}

// owner is the Service that should be named by the IPAddress, nil without any claim.
func (in inputs) owner() *corev1.Service {
	if len(in.claims) == 0 {
		return nil
	}
	return in.claims[0]
}

// named reports whether the object names this Service.
func (in inputs) named(s *corev1.Service) bool {
	return s != nil && upstream.Service(in.object) == key(s)
}

// state is how the object stands to the owner.
func (in inputs) state() relation.State {
	var owner types.NamespacedName
	if in.owner() != nil {
		owner = key(in.owner())
	}
	return relation.Of(in.address, owner, in.view())
}

// view is what matters of the object.
func (in inputs) view() *relation.IPAddress {
	ip, _ := relation.NewIPAddress(in.object)
	return &ip
}

// renumbering reports whether the address is held for its Service, which lists it as a former one:
// an API server that died has let go of it in the Service alone.
func (in inputs) renumbering() bool {
	return in.parent != nil && upstream.HeldAsFormer(in.object) && steering.AdditionalRequestOf(in.parent).KeepsFormer(in.address)
}

// handedOver reports whether renumbering gives the address from one of two Services to the other,
// which is a second one of it. Their owner cannot bring about that both have an address.
func (in inputs) handedOver() bool {
	return len(in.claims) == 2 && (secondOf(in.claims[0], in.claims[1]) || secondOf(in.claims[1], in.claims[0]))
}

func secondOf(s, first *corev1.Service) bool {
	return s.Namespace == first.Namespace && s.Annotations[v1alpha1.AnnotationSecondOf] == first.Name+"/"+string(first.UID)
}

// underway is how long the Service of the object may still take to be written. In bitmap mode only
// a live read tells: the cache drops the signature.
func (in inputs) underway() time.Duration {
	return in.view().Underway(in.now, in.bitmap)
}
