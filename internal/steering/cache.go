package steering

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/internal/addressindex"
)

// readinessDelay is how long a range that has become ready is left alone: an API server that does
// not know it yet would refuse a Service with an address there. They know within milliseconds.
const readinessDelay = time.Second

// gathering is how long the Cache waits for more changes before it compiles: an apply of many
// policies is one change. It waits four times as long as it took to compile, if that is longer, so
// that a stream of changes to many policies takes a fifth of a processor at most.
const gathering = 30 * time.Millisecond

// Changes within pause belong together, as those of an apply of many policies; longest ends them.
const pause, longest = 250 * time.Millisecond, 10 * time.Second

// Cache holds the compiled policies of the cluster as it is now. It runs on every replica, because
// every replica answers the API server. Make one with NewCache; it is safe for concurrent use.
type Cache struct {
	current  atomic.Pointer[Compiled]
	compiled atomic.Bool
	dirty    signal
	listed   []toolscache.InformerSynced // by kind
	policies toolscache.SharedIndexInformer
	cidrs    toolscache.SharedIndexInformer
	// seen are the ranges of the last listing, nil before the first; only compile uses it.
	seen map[types.UID]seenRange

	mu        sync.Mutex
	listeners []func(before, after *Compiled)
	// changed is when the last change was compiled, began when the first that belongs to it was.
	began, changed time.Time
}

// seenRange is a range as it was listed, what was read of it, and since when it was seen to be
// ready.
type seenRange struct {
	object *networkingv1.ServiceCIDR
	read   addressindex.ServiceCIDR
	ready  time.Time
}

// NewCache returns a Cache without policies and ranges.
func NewCache() *Cache {
	c := &Cache{dirty: make(signal, 1)}
	c.current.Store(Compile(Inputs{}))
	return c
}

// Current returns the compiled policies, never nil.
func (c *Cache) Current() *Compiled { return c.current.Load() }

// Synced reports whether Current was made of a complete listing.
func (c *Cache) Synced() bool { return c.compiled.Load() }

// Changing returns how long work that can wait should wait, because more changes are likely to
// follow: zero a moment after the last change, or when they do not end.
func (c *Cache) Changing() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.began) > longest {
		return 0
	}
	return max(0, pause-time.Since(c.changed))
}

// Subscribe calls f after each change. It must not block. Subscribe before Start.
func (c *Cache) Subscribe(f func(before, after *Compiled)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.listeners = append(c.listeners, f)
}

// Watch connects the Cache to the informers of the cache, and returns at once.
func (c *Cache) Watch(ctx context.Context, informers cache.Informers) error {
	for object, into := range map[client.Object]*toolscache.SharedIndexInformer{
		&v1alpha1.ServiceCIDRPolicy{}: &c.policies,
		&networkingv1.ServiceCIDR{}:   &c.cidrs,
	} {
		informer, err := informers.GetInformer(ctx, object, cache.BlockUntilSynced(false))
		if err != nil {
			return fmt.Errorf("watching %T: %w", object, err)
		}
		shared, ok := informer.(toolscache.SharedIndexInformer)
		if !ok {
			return fmt.Errorf("watching %T: the cache has informers of type %T", object, informer)
		}
		registration, err := shared.AddEventHandler(c.handler())
		if err != nil {
			return fmt.Errorf("watching %T: %w", object, err)
		}
		*into = shared
		c.listed = append(c.listed, registration.HasSynced)
	}
	return nil
}

// handler notes changes of spec, labels and life, not of status, which the operator itself writes.
func (c *Cache) handler() toolscache.ResourceEventHandler {
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { c.dirty.set() },
		UpdateFunc: func(before, after any) {
			if !same(before, after) {
				c.dirty.set()
			}
		},
		DeleteFunc: func(any) { c.dirty.set() },
	}
}

func same(before, after any) bool {
	switch after := after.(type) {
	case *v1alpha1.ServiceCIDRPolicy:
		before := before.(*v1alpha1.ServiceCIDRPolicy)
		return before.Generation == after.Generation && before.UID == after.UID
	case *networkingv1.ServiceCIDR:
		before := before.(*networkingv1.ServiceCIDR)
		return before.UID == after.UID && addressindex.NewServiceCIDR(before).Equal(addressindex.NewServiceCIDR(after))
	}
	return false
}

// signal wakes one goroutine, once, however often it was set. It has room for one.
type signal chan struct{}

func (s signal) set() {
	select {
	case s <- struct{}{}:
	default:
	}
}

// NeedLeaderElection implements manager.LeaderElectionRunnable: every replica needs it.
func (c *Cache) NeedLeaderElection() bool { return false }

// Start implements manager.Runnable: it compiles whenever something has changed, until ctx ends.
func (c *Cache) Start(ctx context.Context) error {
	if !toolscache.WaitForCacheSync(ctx.Done(), c.listed...) {
		return nil // asked to stop
	}
	for {
		start := time.Now()
		c.compile()
		took := time.Since(start)
		select {
		case <-ctx.Done():
			return nil
		case <-c.dirty:
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(max(gathering, 4*took)):
		}
	}
}

func (c *Cache) compile() {
	select {
	case <-c.dirty: // what it tells of is in the listing that follows
	default:
	}
	var in Inputs
	for _, o := range c.policies.GetStore().List() {
		in.Policies = append(in.Policies, o.(*v1alpha1.ServiceCIDRPolicy))
	}
	in.ServiceCIDRs = c.ranges(time.Now())
	c.Set(in)
}

// Set compiles what the cluster has, and tells the subscribers.
func (c *Cache) Set(in Inputs) {
	before := c.Current()
	after := before.Recompile(in)
	c.current.Store(after)
	c.mu.Lock()
	if c.compiled.Load() { // what is listed at the start is no change
		if time.Since(c.changed) > pause {
			c.began = time.Now()
		}
		c.changed = time.Now()
	}
	listeners := c.listeners
	c.mu.Unlock()
	for _, f := range listeners {
		f(before, after)
	}
	c.compiled.Store(true)
}

// ranges reads the ranges that have changed since the last listing.
func (c *Cache) ranges(now time.Time) []addressindex.ServiceCIDR {
	items := c.cidrs.GetStore().List()
	out, starting := make([]addressindex.ServiceCIDR, 0, len(items)), c.seen == nil
	if starting {
		c.seen = make(map[types.UID]seenRange, len(items))
	}
	for _, item := range items {
		o := item.(*networkingv1.ServiceCIDR)
		one := c.seen[o.UID]
		if one.object != o {
			one = seenRange{object: o, read: addressindex.NewServiceCIDR(o), ready: c.readySince(o, now, starting)}
			c.seen[o.UID] = one
		}
		r := one.read
		if left := readinessDelay - now.Sub(one.ready); r.Ready && left > 0 {
			r.Ready = false
			time.AfterFunc(left, c.dirty.set)
		}
		out = append(out, r)
	}
	if len(c.seen) > len(items) {
		c.forget(items)
	}
	return out
}

// forget forgets the ranges that are not listed.
func (c *Cache) forget(listed []any) {
	uids := make(map[types.UID]bool, len(listed))
	for _, item := range listed {
		uids[item.(*networkingv1.ServiceCIDR).UID] = true
	}
	maps.DeleteFunc(c.seen, func(uid types.UID, _ seenRange) bool { return !uids[uid] })
}

// readySince is when a range was first seen to be ready; after a start, what the range itself says.
func (c *Cache) readySince(o *networkingv1.ServiceCIDR, now time.Time, starting bool) time.Time {
	if last, ok := c.seen[o.UID]; ok && last.read.Ready {
		return last.ready
	}
	condition := meta.FindStatusCondition(o.Status.Conditions, networkingv1.ServiceCIDRConditionReady)
	if starting && condition != nil && now.Sub(condition.LastTransitionTime.Time) > readinessDelay {
		return time.Time{}
	}
	return now
}

// Changes is a source of keys: when policies change, or a caller calls Touch, it queues what differ
// returns. Comparing is done apart from the subscription, which must not block; what changes
// meanwhile is compared next.
type Changes[K comparable] struct {
	policies *Cache
	differ   func() []K
	touched  signal
}

// NewChanges returns a source. differ returns the keys of what has changed since the last call.
func NewChanges[K comparable](p *Cache, differ func() []K) *Changes[K] {
	return &Changes[K]{policies: p, differ: differ, touched: make(signal, 1)}
}

// Touch asks for a comparison.
func (c *Changes[K]) Touch() { c.touched.set() }

// Start implements source.TypedSource. It subscribes before it compares, so that no change is lost.
func (c *Changes[K]) Start(ctx context.Context, queue workqueue.TypedRateLimitingInterface[K]) error {
	c.policies.Subscribe(func(_, _ *Compiled) { c.Touch() })
	c.Touch()
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-c.touched:
			}
			for _, key := range c.differ() {
				queue.Add(key)
			}
		}
	}()
	return nil
}

// WaitForSync implements source.TypedSyncingSource: half of the policies would open what the other
// half closes, and give up what it reserves.
func (c *Changes[K]) WaitForSync(ctx context.Context) error {
	synced := func(context.Context) (bool, error) { return c.policies.Synced(), nil }
	if err := wait.PollUntilContextCancel(ctx, 20*time.Millisecond, true, synced); err != nil {
		return fmt.Errorf("waiting for the policies: %w", err)
	}
	return nil
}

// String names the source in the controller's log.
func (c *Changes[K]) String() string { return "policies" }
