package servicecidr

import (
	"fmt"
	"net/netip"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/internal/addressindex"
	"github.com/clusterip-operator/clusterip-operator/internal/refusal"
)

// gracePeriod between the request to delete and the removal of the finalizers is upstream's: it
// covers the time in which API servers learn that they must not allocate from the range any more.
const gracePeriod = 10 * time.Second

// inputs is everything that is known about one ServiceCIDR. decide reads nothing else.
type inputs struct {
	now time.Time
	// deleted is when deletion was asked for, zero if it was not.
	deleted time.Time
	// orphans is how many addresses would be left without a range, blockers the first of them.
	orphans  uint64
	blockers []blocker
	bands    []bandUse
	overlaps []addressindex.Network
	limits   Limits
	// unused: it is the default range, and no API server has allocated from it yet. The first that
	// does says so in the condition Ready, if there is none.
	unused bool
	// cluster: it is the default range, which has the conditions that are about no single range.
	cluster bool
	// refused are the writes of IPAddresses that the API server refuses.
	refused []refusal.Refused
}

// blocker is an address that holds a ServiceCIDR, and whose it is.
type blocker struct {
	address netip.Addr
	owner   string
}

// String names the address and its owner, for people.
func (b blocker) String() string { return fmt.Sprintf("%s (%s)", b.address, b.owner) }

// Limits say when a range counts as nearly full. The zero value never warns.
type Limits struct {
	// FreePercent warns when no more than this share of a band is free.
	FreePercent int
	// Within warns when the forecast says that a band will be full before this time has passed.
	Within time.Duration
}

// decision is what should become of a ServiceCIDR.
type decision struct {
	// keep the finalizers; otherwise they go, and the object with them.
	keep       bool
	conditions []metav1.Condition
	// again asks for another decision when the grace is over.
	again time.Duration
}

// decide says what becomes of a ServiceCIDR. It reads no clock and no API.
func decide(in inputs) decision {
	d := decision{keep: true, conditions: usageConditions(in)}
	if in.cluster {
		d.conditions = append(d.conditions, writesRefused(in.refused))
	}
	switch {
	case in.deleted.IsZero() && in.unused:
	case in.deleted.IsZero():
		d.conditions = append(d.conditions, ready())
	case in.orphans > 0:
		d.conditions = append(d.conditions, terminating("some of its addresses are in use and in no other ServiceCIDR"), deletionBlocked(in))
	case in.now.Sub(in.deleted) < gracePeriod:
		d.again = gracePeriod - in.now.Sub(in.deleted)
		d.conditions = append(d.conditions, terminating("waiting until every API server has stopped to allocate from it"), deletionBlocked(in))
	default:
		return decision{}
	}
	return d
}
