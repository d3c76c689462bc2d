package additional

import (
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

const (
	// confirmFor is how long an address must be lacking before it is told: a Service and its ServiceCIDR often come together.
	confirmFor = 2 * time.Second
	// longestPause between two tries. Ranges, policies and Services wake those who wait; only addresses that became free do not.
	longestPause = 30 * time.Second
)

// patience remembers the Services that lack an address: since when, and what they were told. The zero value is empty and ready; it is
// safe for concurrent use.
type patience struct {
	mu      sync.Mutex
	waiting map[types.NamespacedName]*wait
}

type wait struct {
	since time.Time
	told  []string
}

// since notes that a Service lacks an address, and returns for how long it has.
func (p *patience) since(service types.NamespacedName, now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	w := p.waiting[service]
	if w == nil {
		w = &wait{since: now}
		if p.waiting == nil {
			p.waiting = map[types.NamespacedName]*wait{}
		}
		p.waiting[service] = w
	}
	return now.Sub(w.since)
}

// news reports whether a text is new to a Service that waits. It is new once, until the Service has what it lacks.
func (p *patience) news(service types.NamespacedName, text string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	w := p.waiting[service]
	if w == nil || slices.Contains(w.told, text) {
		return false
	}
	w.told = append(w.told, text)
	return true
}

// clear notes that a Service lacks nothing.
func (p *patience) clear(service types.NamespacedName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.waiting, service)
}

// wake returns all who wait.
func (p *patience) wake() []reconcile.Request {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := make([]reconcile.Request, 0, len(p.waiting))
	for service := range p.waiting {
		out = append(out, reconcile.Request{NamespacedName: service})
	}
	return out
}

// pause is how long to wait before the next try: as long again as it took until now.
func pause(waited time.Duration) time.Duration { return min(max(waited, confirmFor), longestPause) }
