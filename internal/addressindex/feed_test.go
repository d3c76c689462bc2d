package addressindex

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/util/workqueue"
)

// adding is a queue that keeps what is added.
type adding struct {
	workqueue.TypedRateLimitingInterface[string]
	mu    sync.Mutex
	added []string
}

// Add implements workqueue.TypedInterface.
func (a *adding) Add(key string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.added = append(a.added, key)
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
		source := &Feed[string]{delay: time.Second, known: nothing[string], connect: func(add func(string)) { tell = add }}
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
