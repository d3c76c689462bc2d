package policy

import (
	"net/netip"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// seenWithin is how long a write may take to come back through the watch. After that the books are believed as they are.
const seenWithin = 5 * time.Second

// writes are those that the API server has accepted and the books do not show yet. Until they do, nobody may be handed the address:
// he would be refused by an IPAddress that the ledger does not know of. The zero value has none; it is safe for concurrent use.
type writes struct {
	mu   sync.Mutex
	open map[netip.Addr]written
}

// written is what was done at an address.
type written struct {
	// made is the UID of the IPAddress that was written, gone of the one that was deleted last; made is empty if none was written.
	made, gone types.UID
	until      time.Time
}

func (s *writes) put(a netip.Addr, w written) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == nil {
		s.open = map[netip.Addr]written{}
	}
	s.open[a] = w
}

func (s *writes) get(a netip.Addr) (written, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w, ok := s.open[a]
	return w, ok
}

func (s *writes) drop(a netip.Addr) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, a)
}

// seen reports whether the books show the write: at is the UID of the IPAddress of ours that they have there, empty for none.
func (w written) seen(at types.UID) bool {
	if w.made != "" {
		return at == w.made
	}
	return at != w.gone
}

// unseen returns how much longer to wait for the last write at an address to be seen, and ends it when that is over.
func (k *Keeper) unseen(a netip.Addr) time.Duration {
	w, ok := k.writes.get(a)
	if !ok {
		return 0
	}
	at, _ := k.Ledger.Kept(a)
	left := w.until.Sub(k.Clock.Now())
	if left > 0 && !w.seen(at.UID) {
		return left
	}
	k.writes.drop(a)
	k.Ledger.EndWrite(a)
	return 0
}
