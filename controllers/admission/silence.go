package admission

import (
	"sync"
	"time"
)

// unheard is how long a replica that has not answered is not asked again: by no request, for each would wait in vain while addresses that are
// this replica's own come free.
const unheard = 2 * time.Second

// silence remembers which replicas have not answered. The zero silence knows of none; it is safe for concurrent use.
type silence struct {
	mu    sync.Mutex
	until map[string]time.Time
}

func (s *silence) note(replica string, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.until == nil {
		s.until = map[string]time.Time{}
	}
	for name, until := range s.until {
		if now.After(until) {
			delete(s.until, name) // gone for good, most likely
		}
	}
	s.until[replica] = now.Add(unheard)
}

func (s *silence) is(replica string, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return now.Before(s.until[replica])
}
