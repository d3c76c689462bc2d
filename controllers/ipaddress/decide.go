package ipaddress

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/internal/drift"
	"github.com/clusterip-operator/clusterip-operator/internal/steering"
	"github.com/clusterip-operator/clusterip-operator/internal/upstream"
)

// Graces of the API server's own repair loop (upstream's repairip.go), which knows how long a
// Service takes to be written after its IPAddress.
const (
	// orphanGrace is the API server's request time-out: within it the Service may still be on its way.
	orphanGrace = 60 * time.Second
	// revertGrace covers the creation of a Service that exists: its IPAddress is taken back at once.
	revertGrace = 5 * time.Second
)

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

// action is what becomes of an IPAddress.
type action int

const (
	leave   action = iota
	create         // write it for the owner
	remove         // delete it
	replace        // delete it and write it for the owner: the parent of an IPAddress is immutable
	relabel        // write the allocator's labels back
	report         // it was written before, and was right
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
	switch {
	case in.object == nil:
		return decideMissing(in)
	case !in.object.DeletionTimestamp.IsZero():
		return decision{} // a finalizer holds it; when that goes it is missing, or gone
	case in.restored && in.named(in.owner()):
		return missing(in, report, confirmRestored)
	case in.restored && len(in.claims) == 0:
		return decision{do: remove} // the API server was about to write the Service without it, and would have found its IPAddress gone
	case len(in.claims) == 0:
		return decideUnclaimed(in)
	case !upstream.ManagedByAPIServer(in.object) && managedBy(in.object) != "" && !in.named(in.owner()):
		// Another manager's IPAddress stands on a Service's address, and is its to give up.
		return decision{drift: drift.WrongParent, confirm: 5 * time.Second, reason: reasonNotAllocated, losers: in.claims[1:],
			note: fmt.Sprintf("is held by an IPAddress managed by %q; delete that IPAddress or create the Service anew", managedBy(in.object))}
	case len(in.claims) > 1:
		return decideDuplicate(in)
	case in.bitmap && upstream.ManagedByAPIServer(in.object) && !in.named(in.owner()):
		return afterGrace(in.underway(), decision{do: replace}) // the daily work of this mode: the bitmap gave the address to another Service
	case !in.named(in.owner()):
		return decision{drift: drift.WrongParent, do: replace, confirm: time.Second,
			reason: reasonNotAllocated, note: "had an IPAddress with another parent; repaired"}
	case !in.labelled():
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

// decideUnclaimed is for an IPAddress whose address no Service holds.
func decideUnclaimed(in inputs) decision {
	switch {
	case !upstream.ManagedByAPIServer(in.object):
		return decision{} // reserved by another manager, or without a label: no allocator's
	case in.renumbering(), slices.ContainsFunc(in.misspelt, in.named):
		// A misspelt one the API server deletes and creates in turns; the service controller tells why.
		return decision{}
	case upstream.Service(in.object).Name == "":
		return decision{drift: drift.WrongParent, do: remove, confirm: 5 * time.Second,
			reason: reasonIPAddressUnclaimed, note: "does not name a Service; deleted"}
	case in.bitmap:
		return afterGrace(in.underway(), decision{do: remove, confirm: 500 * time.Millisecond})
	case in.parent == nil:
		return afterGrace(orphanGrace-in.age(), decision{drift: drift.Orphan, do: remove, confirm: 5 * time.Second,
			reason: reasonIPAddressUnclaimed, note: fmt.Sprintf("had leaked, Service %s does not exist; deleted", upstream.Service(in.object))})
	case in.parent.Spec.Type == corev1.ServiceTypeExternalName && in.age() < orphanGrace:
		// A Service that turns from ExternalName to ClusterIP gets its IPAddress before its update.
		return decision{again: orphanGrace - in.age()}
	default:
		// Of two requests that create one Service, the loser's IPAddress is younger than the Service, and
		// the API server takes it back.
		var grace time.Duration
		if in.object.CreationTimestamp.After(in.parent.CreationTimestamp.Time) {
			grace = revertGrace - in.age()
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

// decideDuplicate gives the address to the Service that held it first, and tells the losers.
func decideDuplicate(in inputs) decision {
	d := decision{drift: drift.Duplicate, confirm: time.Second, losers: in.claims[1:]}
	switch {
	case !in.named(in.owner()):
		d.do = replace
		d.reason, d.note = reasonNotAllocated, "was allocated to a younger Service; repaired"
	case !in.labelled():
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
	// claims are the Services that hold the address, the rightful owner first: see byRight.
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

// byRight orders Services: the first to hold the address keeps it. Names break ties of a second.
func byRight(a, b *corev1.Service) int {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(key(a).String(), key(b).String()))
}

func key(s *corev1.Service) types.NamespacedName {
	return types.NamespacedName{Namespace: s.Namespace, Name: s.Name}
}

func managedBy(o *networkingv1.IPAddress) string { return o.Labels[networkingv1.LabelManagedBy] }

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

func (in inputs) labelled() bool {
	return upstream.ManagedByAPIServer(in.object) && in.object.Labels[networkingv1.LabelIPAddressFamily] == allocator.FamilyOf(in.address).String()
}

// renumbering reports whether the address is held for its Service, which lists it as a former one:
// an API server that died has let go of it in the Service alone.
func (in inputs) renumbering() bool {
	return in.parent != nil && upstream.HeldAsFormer(in.object) && steering.AdditionalRequestOf(in.parent).KeepsFormer(in.address)
}

// underway is how long the Service of an IPAddress may still take to be written, in bitmap mode. We
// write IPAddresses after their Services; an API server that the cluster is being upgraded to
// writes its own before. Only a live read tells: the cache drops the signature.
func (in inputs) underway() time.Duration {
	if !upstream.WrittenByAPIServer(in.object) {
		return 0
	}
	return orphanGrace - in.age()
}

func (in inputs) age() time.Duration { return in.now.Sub(in.object.CreationTimestamp.Time) }
