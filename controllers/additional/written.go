package additional

import (
	"net/netip"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// written remembers the IPAddresses that this process wrote and the ledger does not show yet. Without it, a look at a Service between
// the write and its event would draw once more. The zero value is empty and ready; it is safe for concurrent use.
type written struct {
	mu    sync.Mutex
	notes map[types.NamespacedName][]held
}

// add notes what was written.
func (w *written) add(service types.NamespacedName, h held) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.notes == nil {
		w.notes = map[types.NamespacedName][]held{}
	}
	w.notes[service] = append(w.notes[service], h)
}

// of returns what was written for a Service and is not seen yet.
func (w *written) of(service types.NamespacedName) []held {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.notes[service])
}

// drop forgets a note, because the ledger shows the IPAddress, or because it is gone.
func (w *written) drop(service types.NamespacedName, a netip.Addr) {
	w.mu.Lock()
	defer w.mu.Unlock()
	left := slices.DeleteFunc(w.notes[service], func(h held) bool { return h.address == a })
	if len(left) == 0 {
		delete(w.notes, service)
		return
	}
	w.notes[service] = left
}
