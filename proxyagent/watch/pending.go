package watch

import (
	"net/netip"
	"sync"
	"time"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// batch is what has to be looked at again: names, not values.
type batch struct {
	services      map[model.ServiceName]struct{}
	allocations   map[netip.Addr]struct{}
	ranges, node  bool
	triggers      []time.Time
	serviceEvents int
	sliceEvents   int
}

func newBatch() batch {
	return batch{services: map[model.ServiceName]struct{}{}, allocations: map[netip.Addr]struct{}{}}
}

// pending gathers a batch. It is closed until [pending.open]: nothing wakes and nothing can be taken. Its methods may be called
// concurrently.
type pending struct {
	// wake holds a token when, and only when, something is pending and nobody has received the token yet. It is touched under mu.
	wake chan struct{}

	mu     sync.Mutex
	opened bool
	batch  batch
}

func newPending() *pending { return &pending{wake: make(chan struct{}, 1), batch: newBatch()} }

// mark adds to the batch.
func (p *pending) mark(add func(*batch)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	add(&p.batch)
	if p.opened {
		p.ring()
	}
}

// open lets everything out that was gathered until now, and wakes even when that is nothing: that a cluster is empty is news, too.
func (p *pending) open() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.opened = true
	p.ring()
}

// take returns the batch and begins a new one. It reports false as long as pending is closed.
func (p *pending) take() (batch, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.opened {
		return batch{}, false
	}
	taken := p.batch
	p.batch = newBatch()
	select {
	case <-p.wake:
	default:
	}
	return taken, true
}

func (p *pending) ring() {
	select {
	case p.wake <- struct{}{}:
	default: // somebody was woken and has not come yet
	}
}
