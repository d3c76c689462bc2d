package inflight

import (
	"net/netip"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Holder is the Service, and the review, that an address is handed out to.
type Holder struct {
	// Service may lack its name when the API server has yet to generate it.
	Service types.NamespacedName
	// Review is the UID of the AdmissionReview that is answered with the address. An API server
	// makes a new one for each call, also when it asks a second time about the same request. So it
	// does not tell requests apart, but reviews: one that gives up late gives back only what it
	// took itself, and not what a later review of the same Service has got meanwhile.
	Review types.UID
}

// Flight is an address that this process handed out, or where it writes an IPAddress, and that the
// cluster does not show yet. Of one that Flights have, the caller changes nothing but Written and
// Gone of its Write.
type Flight struct {
	Address netip.Addr
	// Since is when it began, Until when its time is over.
	Since, Until time.Time
	// Instead is the flight that yielded the address to this one, nil for none.
	Instead *Flight
	// Write is set from when this process writes our IPAddress there until the watch shows that.
	Write *Write

	// of is the account of the Service's namespace, nil if the address is for no Service.
	of     *account
	name   string
	review types.UID
	place  int // in the queue of those whose time will be over
	// late: it was there for overtakenFor or unshownFor, and counts as one that does not arrive.
	late, landed bool
	// renewed: its Service had asked for the address before, and asked anew.
	renewed bool
}

// Write is an IPAddress of ours that is being written or deleted. NewWrite makes one.
type Write struct {
	// Written is the UID of the IPAddress that was written, Gone that of the one that was deleted
	// last. Both are empty while the write is under way.
	Written, Gone types.UID
	over          chan struct{}
}

// NewWrite returns a write that is under way.
func NewWrite() *Write { return &Write{over: make(chan struct{})} }

// Over is closed when the flight ends.
func (w *Write) Over() <-chan struct{} { return w.over }

// Holder returns the Holder that the address was handed out to, the zero Holder for no Service.
func (f *Flight) Holder() Holder {
	if f.of == nil {
		return Holder{}
	}
	return Holder{Service: types.NamespacedName{Namespace: f.of.namespace, Name: f.name}, Review: f.review}
}

// Seen reports whether the watch shows the last write, when it shows an IPAddress of ours with this
// UID, empty for none.
func (w *Write) Seen(at types.UID) bool {
	if w.Written != "" {
		return at == w.Written
	}
	return at != w.Gone || at == ""
}
