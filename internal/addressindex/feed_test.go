package addressindex

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/util/workqueue"
)

// adding is a queue that keeps what is added.
type adding struct {
	workqueue.TypedRateLimitingInterface[string]
	mu     sync.Mutex
	added  []string
	worked int // how many of them were taken
}

// Add implements workqueue.TypedInterface.
func (a *adding) Add(key string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.added = append(a.added, key)
}

// Len implements workqueue.TypedInterface.
func (a *adding) Len() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.added) - a.worked
}

// work takes all keys.
func (a *adding) work() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.worked = len(a.added)
}

func (a *adding) expect(t *testing.T, want ...string) {
	t.Helper()
	synctest.Wait()
	a.mu.Lock()
	defer a.mu.Unlock()
	if !slices.Equal(a.added, want) {
		t.Errorf("added %q, want %q", a.added, want)
	}
}

// A thousand policies may have one range: they are looked up once for all events of a while.
func TestMapAfterDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tell func(string)
		source := &Feed[string]{index: New(), delay: time.Second, known: nothing[string], connect: func(add func(string)) { tell = add }}
		q := &adding{}
		if err := Map(source, func(key string) []string { return []string{key + "1", key + "2"} }).Start(t.Context(), q); err != nil {
			t.Fatal(err)
		}
		for range 100 {
			tell("a")
			time.Sleep(time.Millisecond)
		}
		q.expect(t)
		time.Sleep(time.Second)
		q.expect(t, "a1", "a2")
		tell("a")
		time.Sleep(time.Millisecond)
		tell("b")
		time.Sleep(time.Second)
		q.expect(t, "a1", "a2", "a1", "a2", "b1", "b2")
	})
}

// A cluster has a hundred thousand addresses: a queue of all of them would be the largest thing
// that the manager ever holds.
func TestFeedTrickles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ix := New()
		var listed atomic.Bool
		ix.synced = append(ix.synced, listed.Load)
		keys := make([]string, 2*portion+1)
		for i := range keys {
			keys[i] = fmt.Sprint(i)
		}
		var tell func(string)
		source := &Feed[string]{index: ix, known: func() []string { return keys }, connect: func(add func(string)) { tell = add }}
		q := &adding{}
		if err := source.Start(t.Context(), q); err != nil {
			t.Fatal(err)
		}
		tell("0") // one of the first listing
		time.Sleep(time.Second)
		q.expect(t)
		listed.Store(true)
		time.Sleep(patience / 2)
		q.expect(t, keys[:portion]...)
		tell("an event")
		q.work()
		time.Sleep(patience / 2)
		q.expect(t, slices.Concat(keys[:portion], []string{"an event"}, keys[portion:2*portion])...)
		time.Sleep(patience) // a queue that is never empty keeps no key out for ever
		q.expect(t, slices.Concat(keys[:portion], []string{"an event"}, keys[portion:])...)
	})
}
