package policy

import (
	"sync"
	"time"
)

// pace remembers when each policy was looked at. The zero value is ready; it is safe for concurrent use.
type pace struct {
	mu   sync.Mutex
	last map[string]time.Time
}

// left returns how long a policy has to wait for its next look.
func (p *pace) left(name string, now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	last, ok := p.last[name]
	if !ok {
		return 0
	}
	return every - now.Sub(last)
}

func (p *pace) start(name string, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.last == nil {
		p.last = map[string]time.Time{}
	}
	p.last[name] = now
}

func (p *pace) forget(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.last, name)
}
