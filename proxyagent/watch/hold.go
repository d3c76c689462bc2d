package watch

import (
	"cmp"
	"sync"
	"time"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// holdFor is how long a Service is held at most. Whoever exchanges its ClusterIPs needs milliseconds; an API server that is restarted just then, half a minute.
const holdFor = time.Minute

// holds has the Services that are of type ExternalName for a moment, because that is the only way to exchange their ClusterIPs. Each goes on being served as it was
// last, with the endpoints that it has now, until it is served again, is something else, or its time is over.
//
// The annotation that says so may be written by whoever may write the Service. So it decides nothing but that the Service is held: what is served was known before, and an
// agent that starts in the middle knows nothing and serves nothing. That a held Service takes nothing away from others is up to package compile: it yields to all of
// them, and has a ClusterIP only as long as the IPAddress names it. That holds in all modes of allocations: where IPAddresses are ignored, nothing else says that an
// address was given to somebody whom we do not see.
//
// Its methods may be called concurrently.
type holds struct {
	ended func(model.ServiceName)

	mu sync.Mutex
	// of has every Service whose event said that it is being renumbered, also those of which nothing is known or whose time is over: for them last is nil.
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

// see takes in an event, and reports whether to look at the Service again: it begins or ends to be renumbered. That counts also where it was not served before, because a look
// in between may have waited for this event. The two versions may be of different Services with one name, when the deletion was not seen.
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

// get returns a Service as it is held, nil for one that is not served any more; false while no event said that it is being renumbered.
func (h *holds) get(name model.ServiceName) (*service, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	found, ok := h.of[name]
	return found.last, ok
}

// expire ends a hold whose time is over, unless something else has by then.
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
