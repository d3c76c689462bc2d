package ipaddress

import (
	"fmt"
	"time"

	"github.com/clusterip-operator/clusterip-operator/controllers/internal/drift"
)

// Graces of the API server's own repair loop (upstream's repairip.go), which knows how long a Service takes to
// be written after its IPAddress.
const (
	// orphanGrace is the API server's request time-out: within it the Service may still be on its way.
	orphanGrace = 60 * time.Second
	// revertGrace covers the creation of a Service that exists already: its IPAddress is taken back at once.
	revertGrace = 5 * time.Second
)

// action is what becomes of an IPAddress.
type action int

const (
	leave   action = iota
	create         // write it for the owner
	remove         // delete it
	replace        // delete it and write it for the owner: the parent of an IPAddress is immutable
	relabel        // write the allocator's labels back
)

// Reasons of events, upstream's where it has one, so that alerts on them carry over.
const (
	reasonNotAllocated        = "ClusterIPNotAllocated"
	reasonAlreadyAllocated    = "ClusterIPAlreadyAllocated"
	reasonIPAddressUnclaimed  = "IPAddressNotAllocated"
	reasonIPAddressWrongOwner = "IPAddressWrongReference"
)

// verdict says what is wrong with an address and what to do about it.
type verdict struct {
	drift drift.Type
	do    action
	// confirm is how long the drift must last before it is believed.
	confirm time.Duration
	// again asks for another look later, when a grace is over. Nothing is wrong until then.
	again time.Duration
	// reason and note are the event for the rightful owner, or for the IPAddress when nobody holds the address.
	reason, note string
	// losers hold the address without right; they get the event to be created anew.
	losers []claim
}

// decide judges one address.
func decide(w world) verdict {
	switch {
	case w.object == nil:
		return decideMissing(w)
	case w.object.deleting:
		return verdict{} // somebody's finalizer holds it; when that goes it is missing, or gone
	case len(w.claims) == 0:
		return decideUnclaimed(w)
	case w.object.foreign() && !w.object.named(w.owner()):
		return reportForeign(w)
	case len(w.claims) > 1:
		return decideDuplicate(w)
	case w.bitmap && w.changedHands():
		return afterGrace(w.underway(), verdict{do: replace}) // the daily work of this mode: the bitmap gave the address to another Service
	case !w.object.named(w.owner()):
		return decideWrongParent()
	case !w.labelled():
		return verdict{drift: drift.WrongLabels, do: relabel, confirm: 5 * time.Second,
			reason: reasonNotAllocated, note: "had lost the labels of the allocator; repaired"}
	default:
		return verdict{}
	}
}

// decideMissing judges an address without IPAddress. Out of every range it is the service controller's case:
// an IPAddress would not make it routable, and upstream does not create one either.
func decideMissing(w world) verdict {
	switch {
	case w.owner() == nil || !w.offered:
		return verdict{}
	case w.bitmap:
		return verdict{do: create} // the daily work of this mode, no drift
	default:
		return verdict{drift: drift.Missing, do: create, confirm: 500 * time.Millisecond, losers: w.claims[1:],
			reason: reasonNotAllocated, note: "was not allocated; repaired"}
	}
}

// decideUnclaimed judges an IPAddress whose address no Service holds.
func decideUnclaimed(w world) verdict {
	switch {
	case !w.object.ours():
		return verdict{} // reserved by somebody, or without a label: no allocator's
	case w.object.service.Name == "":
		return verdict{drift: drift.WrongParent, do: remove, confirm: 5 * time.Second,
			reason: reasonIPAddressUnclaimed, note: "does not name a Service; deleted"}
	case w.bitmap:
		return afterGrace(w.underway(), verdict{do: remove, confirm: 500 * time.Millisecond})
	case w.parent == nil:
		return afterGrace(orphanGrace-w.age(), verdict{drift: drift.Orphan, do: remove, confirm: 5 * time.Second,
			reason: reasonIPAddressUnclaimed, note: fmt.Sprintf("had leaked, Service %s does not exist; deleted", w.object.service)})
	case w.parent.externalName && w.age() < orphanGrace:
		// A Service that turns from ExternalName into ClusterIP gets its IPAddress before its own update.
		return verdict{again: orphanGrace - w.age()}
	default:
		// Of two requests that create one Service, the loser's IPAddress is younger than the Service and is
		// taken back by the API server.
		var grace time.Duration
		if w.object.created.After(w.parent.created) {
			grace = revertGrace - w.age()
		}
		return afterGrace(grace, verdict{drift: drift.WrongParent, do: remove, confirm: 5 * time.Second,
			reason: reasonIPAddressWrongOwner, note: fmt.Sprintf("names Service %s, which does not hold it; deleted", w.object.service)})
	}
}

// afterGrace holds a verdict back while the grace lasts.
func afterGrace(left time.Duration, v verdict) verdict {
	if left > 0 {
		return verdict{again: left}
	}
	return v
}

// reportForeign: somebody else's IPAddress stands on a Service's address. It is theirs to give up.
func reportForeign(w world) verdict {
	return verdict{drift: drift.WrongParent, confirm: 5 * time.Second, reason: reasonNotAllocated, losers: w.claims[1:],
		note: fmt.Sprintf("is held by an IPAddress managed by %q; delete that IPAddress or create the Service anew", w.object.managedBy)}
}

// decideDuplicate gives the address to the Service that held it first, and tells the others.
func decideDuplicate(w world) verdict {
	v := verdict{drift: drift.Duplicate, confirm: time.Second, losers: w.claims[1:]}
	switch {
	case !w.object.named(w.owner()):
		v.do = replace
		v.reason, v.note = reasonNotAllocated, "was allocated to a younger Service; repaired"
	case !w.labelled():
		v.do = relabel
	}
	return v
}

func decideWrongParent() verdict {
	return verdict{drift: drift.WrongParent, do: replace, confirm: time.Second,
		reason: reasonNotAllocated, note: "had an IPAddress with another parent; repaired"}
}
