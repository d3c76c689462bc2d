package watch

import (
	"net/netip"
	"sync"
	"time"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// formerFor is how long a former address is served at least after its IPAddress has gone.
const formerFor = 2 * time.Second

// formers has former addresses whose IPAddress is gone. A Service that gets its former address back
// as a ClusterIP would otherwise lose its connections: the API server creates the new IPAddress
// after the old one has gone, and events of IPAddresses and Services do not wait for each other. So
// the address stays with its Service for a while, and as long as that is held, unless an IPAddress
// names another Service. While there is none, no Service has been given the address.
//
// Its methods may be called concurrently.
type formers struct {
	held  func(model.ServiceName) bool
	ended func(netip.Addr)

	mu sync.Mutex
	of map[netip.Addr]*model.Allocation
}

// newFormers calls ended for each address whose time is over.
func newFormers(held func(model.ServiceName) bool, ended func(netip.Addr)) *formers {
	return &formers{held: held, ended: ended, of: map[netip.Addr]*model.Allocation{}}
}

// see takes in an event.
func (f *formers) see(c change[*allocation]) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case c.new != nil && c.new.model.Former:
		delete(f.of, c.new.model.Addr)
	case c.old != nil && c.old.model.Former:
		kept := c.old.model
		f.of[kept.Addr] = &kept
		f.endLater(&kept)
	}
}

// endLater ends what is kept, unless an event has done so by then. It is called with the lock.
func (f *formers) endLater(kept *model.Allocation) {
	time.AfterFunc(formerFor, func() {
		held := f.held(kept.Service)
		f.mu.Lock()
		defer f.mu.Unlock()
		switch {
		case f.of[kept.Addr] != kept:
		case held:
			f.endLater(kept)
		default:
			delete(f.of, kept.Addr)
			f.ended(kept.Addr)
		}
	})
}

// or returns the allocation of an address: of its IPAddress, or else the kept one; nil for none.
func (f *formers) or(a netip.Addr, now *model.Allocation) *model.Allocation {
	f.mu.Lock()
	defer f.mu.Unlock()
	kept := f.of[a]
	if kept == nil || now != nil && now.Service != kept.Service {
		return now
	}
	return kept
}
