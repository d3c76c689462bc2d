package addressindex

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/workqueue"
)

type listeners[T any] struct {
	mu  sync.RWMutex
	all []func(T)
}

func (l *listeners[T]) add(f func(T)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, f)
}

func (l *listeners[T]) tell(key T) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	for _, f := range l.all {
		f(key)
	}
}

// Map turns the keys of one source into those of another, once for all that delay holds back.
func Map[T, U comparable](f *Feed[T], to func(T) []U) *Feed[U] {
	return &Feed[U]{
		name: f.name, index: f.index,
		connect: func(add func(U)) {
			f.connect(holdBack(f.delay, func(key T) {
				for _, k := range to(key) {
					add(k)
				}
			}))
		},
		known: func() (out []U) {
			for _, key := range f.known() {
				out = append(out, to(key)...)
			}
			return out
		},
	}
}

// holdBack returns a function that calls do with a key after delay, once for all calls until then.
func holdBack[T comparable](delay time.Duration, do func(T)) func(T) {
	if delay == 0 {
		return do
	}
	var waiting sync.Map
	return func(key T) {
		if _, known := waiting.LoadOrStore(key, nil); known {
			return
		}
		time.AfterFunc(delay, func() {
			waiting.Delete(key) // before, so that what comes meanwhile is not missed
			do(key)
		})
	}
}

// Feed is a controller's source: all that is indexed at its start, then every key told. Addresses,
// Covers, Ranges and Map make one.
type Feed[T comparable] struct {
	name    string
	index   *Index
	connect func(add func(T))
	known   func() []T
	delay   time.Duration
}

// Addresses wakes a controller for every address whose IPAddress or claims changed.
func (ix *Index) Addresses() *Feed[netip.Addr] {
	return &Feed[netip.Addr]{name: "addresses", index: ix, connect: ix.addressListeners.add, known: func() []netip.Addr { return known(ix, ix.addresses) }}
}

// Covers wakes a controller for every used address that a ServiceCIDR began or ceased to offer.
func (ix *Index) Covers() *Feed[netip.Addr] {
	return &Feed[netip.Addr]{name: "covers", index: ix, connect: ix.coverListeners.add, known: nothing[netip.Addr]}
}

// Ranges wakes a controller for every ServiceCIDR that changed, or whose neighbours did.
func (ix *Index) Ranges() *Feed[string] {
	return &Feed[string]{name: "ranges", index: ix, connect: ix.rangeListeners.add, known: func() []string { return known(ix, ix.ranges) }}
}

// RangeUsage wakes a controller for every ServiceCIDR whose used addresses or overlapping networks
// changed. Keys are held back for delay, so that a burst of allocations is one look at the range.
func (ix *Index) RangeUsage(delay time.Duration) *Feed[string] {
	return &Feed[string]{name: "usage", index: ix, connect: ix.usageListeners.add, delay: delay, known: nothing[string]}
}

// nothing is what a feed begins with whose keys another feed of the same controller has already.
func nothing[T any]() []T { return nil }

// known returns what a map of the index has.
func known[K comparable, V any](l *Index, of map[K]V) []K {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return slices.Collect(maps.Keys(of))
}

// Start implements source.TypedSource. It connects before it reads what is known, so that nothing
// falls between the two; a key added twice is one key in the queue. Until the first listing is
// indexed it adds nothing: all of it is known then, and trickles into the queue.
func (f *Feed[T]) Start(ctx context.Context, queue workqueue.TypedRateLimitingInterface[T]) error {
	add := func(key T) { queue.Add(key) }
	if f.delay > 0 {
		add = func(key T) { queue.AddAfter(key, f.delay) }
	}
	var listed atomic.Bool
	f.connect(func(key T) {
		if listed.Load() {
			add(key)
		}
	})
	go func() {
		if f.WaitForSync(ctx) != nil {
			return // ctx has ended
		}
		listed.Store(true)
		trickle(ctx, queue, f.known(), add)
	}()
	return nil
}

// portion is how many of the keys that are known at the start wait in a queue, about. A queue takes
// 200 bytes for each, and its maps keep the size that they have once had.
const portion = 1000

// patience is how long a portion waits for the one before: a tenant whose Services come and go as
// fast as they are looked at must not keep a drift from being seen.
const patience = time.Second

// trickle adds keys as fast as they are worked off, and a portion in patience at least.
func trickle[T comparable](ctx context.Context, queue workqueue.TypedRateLimitingInterface[T], keys []T, add func(T)) {
	for part := range slices.Chunk(keys, portion) {
		for _, key := range part {
			add(key)
		}
		for began := time.Now(); queue.Len() > portion/10 && time.Since(began) < patience; {
			select {
			case <-ctx.Done():
				return
			case <-time.After(5 * time.Millisecond):
			}
		}
	}
}

// WaitForSync implements source.TypedSyncingSource: no controller decides by half an index.
func (f *Feed[T]) WaitForSync(ctx context.Context) error {
	synced := func(context.Context) (bool, error) { return f.index.Synced(), nil }
	if err := wait.PollUntilContextCancel(ctx, 20*time.Millisecond, true, synced); err != nil {
		return fmt.Errorf("waiting for the first listing of %s: %w", f.name, err)
	}
	return nil
}

// String names the source in the controller's log.
func (f *Feed[T]) String() string { return "address index " + f.name }

// Wake tells the listeners of an address, and of the ranges that offer it, to look again.
func (ix *Index) Wake(a netip.Addr) {
	ix.addressListeners.tell(a)
	for _, c := range ix.Covering(a) {
		ix.usageListeners.tell(c.Name)
	}
}
