package watch

import (
	"cmp"
	"sync"
	"time"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// holdFor is how long a Service is held at most. To exchange its ClusterIPs takes milliseconds, or
// half a minute if the API server is restarted just then.
const holdFor = time.Minute

// holds has the Services that are of type ExternalName for a moment, because that is the only way
// to exchange their ClusterIPs. Each is served as it was last, with its current endpoints, until it
// is served again, becomes a Service of another type, or its time is over.
//
// A tenant who may write the Service may write the annotation that says so. So it decides only that
// the Service is held: what is served was known before, and an agent that starts in between serves
// nothing. Package compile sees to it that a held Service takes nothing from other Services: it
// yields to all of them, and has a ClusterIP only while the IPAddress names it. That holds even
// where IPAddresses are ignored: nothing else says that a Service unknown to us got the address.
//
// Its methods may be called concurrently.
type holds struct {
	ended func(model.ServiceName)

	mu sync.Mutex
	// of has all Services whose event said that they are renumbered; last is nil if unknown or over.
	of map[model.ServiceName]hold
}

// hold is one Service of holds.
type hold struct {
	created time.Time
	last    *service
	over    *time.Timer // of last
}

// newHolds calls ended for each Service whose time is over.
func newHolds(ended func(model.ServiceName)) *holds {
	return &holds{ended: ended, of: map[model.ServiceName]hold{}}
}

// see takes in an event, and reports whether to look at the Service again: it begins or ends to be
// renumbered, even if not served before, as a look in between may have waited for this event. If
// the deletion was not seen, the versions may be two Services of one name.
func (h *holds) see(c change[*service]) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	name := cmp.Or(c.new, c.old).model.Name
	before, was := h.of[name]
	if was && c.new.isRenumbering() && before.created.Equal(c.new.model.Created) {
		return false
	}
	if before.over != nil {
		before.over.Stop()
	}
	if !c.new.isRenumbering() {
		delete(h.of, name)
		return was
	}
	next := hold{created: c.new.model.Created}
	if c.old.isServed() && c.old.model.Created.Equal(next.created) {
		last := *c.old
		last.model.Held = true
		next.last, next.over = &last, time.AfterFunc(holdFor, func() { h.expire(&last) })
	}
	h.of[name] = next
	return true
}

// get returns a held Service, nil if it is no longer served; false without an event of renumbering.
func (h *holds) get(name model.ServiceName) (*service, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	found, ok := h.of[name]
	return found.last, ok
}

// expire ends a hold whose time is over, unless an event has done so by then.
func (h *holds) expire(last *service) {
	h.mu.Lock()
	defer h.mu.Unlock()
	name := last.model.Name
	if held := h.of[name]; held.last == last {
		h.of[name] = hold{created: held.created}
		h.ended(name)
	}
}

// isRenumbering reports whether there is a Service and it says so.
func (s *service) isRenumbering() bool { return s != nil && s.renumbering }
