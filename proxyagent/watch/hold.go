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
// Its methods may be called concurrently. One timer serves all.
type holds struct {
	ended func(model.ServiceName)

	mu sync.Mutex
	// of has every Service whose event said that it is being renumbered, also those of which nothing is known or whose time is over: for them last is nil.
	of map[model.ServiceName]hold
	// timer runs as long as there are some with last; nil when it does not run.
	timer *time.Timer
}

// hold is one Service of holds.
type hold struct {
	created time.Time
	last    *service
	until   time.Time
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
	if !c.new.isRenumbering() {
		delete(h.of, name)
		return was
	}
	created := c.new.model.Created
	if was && before.created.Equal(created) {
		return false
	}
	next := hold{created: created}
	if c.old.isServed() && c.old.model.Created.Equal(created) {
		last := *c.old
		last.model.Held = true
		next.last, next.until = &last, time.Now().Add(holdFor)
		h.start(holdFor)
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

// start has the timer run, unless it does.
func (h *holds) start(d time.Duration) {
	if h.timer == nil {
		h.timer = time.AfterFunc(d, h.expire)
	}
}

// expire ends the holds whose time is over, and has the timer run until that of the next one is.
func (h *holds) expire() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.timer = nil
	var next time.Duration
	for name, held := range h.of {
		switch left := time.Until(held.until); {
		case held.last == nil:
		case left <= 0:
			h.of[name] = hold{created: held.created}
			h.ended(name)
		case next == 0 || left < next:
			next = left
		}
	}
	if next > 0 {
		h.start(next)
	}
}

// isRenumbering reports whether there is a Service and it says so.
func (s *service) isRenumbering() bool { return s != nil && s.renumbering }
