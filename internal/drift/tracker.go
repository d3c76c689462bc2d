package drift

import (
	"slices"
	"sync"
	"time"
)

// Type names a kind of drift between Services, IPAddresses and ServiceCIDRs; it is the value of the
// metric label `type`.
type Type string

// The ways in which the one-to-one relation of KEP-1880 breaks.
const (
	// None: nothing is wrong.
	None Type = ""
	// Missing: a Service's address has no IPAddress, another Service could be given it.
	Missing Type = "missing"
	// Orphan: an IPAddress names a Service that does not exist.
	Orphan Type = "orphan"
	// WrongParent: an IPAddress names something that does not hold the address.
	WrongParent Type = "wrong_parent"
	// WrongLabels: an IPAddress lacks the labels by which the API server finds its own.
	WrongLabels Type = "wrong_labels"
	// Duplicate: several Services hold one address.
	Duplicate Type = "duplicate"
	// OutOfRange: no ServiceCIDR offers a Service's address.
	OutOfRange Type = "out_of_range"
	// Invalid: an entry of spec.clusterIPs is no address.
	Invalid Type = "invalid"
	// Misspelt: an address in spec.clusterIPs is not written as its IPAddress is named.
	Misspelt Type = "misspelt"
)

// Types returns every type but None, in the order of their documentation.
func Types() []Type {
	return []Type{Missing, Orphan, WrongParent, WrongLabels, Duplicate, OutOfRange, Invalid, Misspelt}
}

// Tracker remembers one finding for each key. The zero value is empty and ready; it is safe for
// concurrent use. Memory grows with what is wrong, not with what is watched.
type Tracker[K comparable] struct {
	mu       sync.Mutex
	findings map[K]*finding
}

type finding struct {
	kind     Type
	since    time.Time
	believed bool
	reported []string
}

// Suspect notes that key shows a finding of this type now, and returns how much longer it has to
// last before it may be believed: zero when it has been there for delay. A new type starts anew.
func (t *Tracker[K]) Suspect(key K, kind Type, now time.Time, delay time.Duration) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.findings == nil {
		t.findings = map[K]*finding{}
	}
	f := t.findings[key]
	if f == nil {
		f = &finding{}
		t.findings[key] = f
	}
	if f.since.IsZero() || f.kind != kind {
		*f = finding{kind: kind, since: now, reported: f.reported}
	}
	return max(0, delay-now.Sub(f.since))
}

// Believe notes that the finding of key was confirmed, and reports whether that is new.
func (t *Tracker[K]) Believe(key K) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	f := t.findings[key]
	if f == nil || f.believed {
		return false
	}
	f.believed = true
	return true
}

// remembered is how many texts about one key are told: an ever-changing text costs bounded memory.
const remembered = 64

// Report returns whether this text about a suspected key is news: 64 texts are, once, until Clear.
func (t *Tracker[K]) Report(key K, text string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	f := t.findings[key]
	if f == nil || len(f.reported) == remembered || slices.Contains(f.reported, text) {
		return false
	}
	f.reported = append(f.reported, text)
	return true
}

// Clear forgets key: nothing is wrong with it any more.
func (t *Tracker[K]) Clear(key K) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.findings, key)
}

// Count returns how many keys show each type of believed drift, in one pass over what is wrong.
func (t *Tracker[K]) Count() map[Type]int {
	t.mu.Lock()
	defer t.mu.Unlock()
	counts := map[Type]int{}
	for _, f := range t.findings {
		if f.believed {
			counts[f.kind]++
		}
	}
	return counts
}
