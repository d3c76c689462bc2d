package replicas

import (
	"maps"
	"sync"
	"time"
)

// silence remembers which replicas have not answered, and were not heard of since they were asked. The zero silence knows of none; it is safe
// for concurrent use.
//
// A replica that lives renews its Lease every few seconds, if it says nothing else: so long one that is only slow is taken for a silent one.
type silence struct {
	mu    sync.RWMutex
	heard map[string]time.Time
	since map[string]time.Time
}

// asked notes that a replica has not answered what it was asked at a time.
func (s *silence) asked(name string, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.heard[name].After(at) {
		return // it lives; the answer is late, or it is not the one to give it
	}
	if s.since == nil {
		s.since = map[string]time.Time{}
	}
	s.since[name] = at
}

// broken notes that something was heard of a replica.
func (s *silence) broken(name string, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.heard == nil {
		s.heard = map[string]time.Time{}
	}
	s.heard[name] = at
	delete(s.since, name)
}

// keep forgets all replicas but these.
func (s *silence) keep(living map[string]bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	gone := func(name string, _ time.Time) bool { return !living[name] }
	maps.DeleteFunc(s.heard, gone)
	maps.DeleteFunc(s.since, gone)
}

// of reports whether a replica is silent.
func (s *silence) of(name string) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	_, silent := s.since[name]
	return silent
}
