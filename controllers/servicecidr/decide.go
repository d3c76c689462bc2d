package servicecidr

import (
	"math"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// gracePeriod between the request to delete and the removal of the finalizers, upstream's value: it covers the
// time that API servers need to learn that they must not allocate from the range any more.
const gracePeriod = 10 * time.Second

// verdict says what should become of a ServiceCIDR.
type verdict struct {
	// keep the finalizers; otherwise they go, and the object with them.
	keep       bool
	conditions []metav1.Condition
	// again asks for another look when the grace is over.
	again time.Duration
}

// decide judges a ServiceCIDR. It reads no clock and no API.
func decide(w world) verdict {
	v := verdict{keep: true, conditions: usageConditions(w)}
	switch {
	case w.deleted.IsZero():
		v.conditions = append(v.conditions, ready())
	case w.orphans > 0:
		v.conditions = append(v.conditions, terminating("some of its addresses are in use and in no other ServiceCIDR"), deletionBlocked(w, math.MaxInt))
	case w.now.Sub(w.deleted) < gracePeriod:
		v.again = gracePeriod - w.now.Sub(w.deleted)
		v.conditions = append(v.conditions, terminating("waiting until every API server has stopped to allocate from it"), deletionFree())
	default:
		v.keep = false
		v.conditions = nil
	}
	return v
}
