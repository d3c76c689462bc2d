package steering

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
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
	// ready are the ServiceCIDRs that are ready, by name; only compile uses it.
	ready map[string]readiness

	mu sync.Mutex
	// noted are the names of the policies and ServiceCIDRs that have changed since they were compiled.
	noted     noted
	listeners []func(before, after *Compiled)
	// changed is when the last change was compiled, began when the first that belongs to it was.
	began, changed time.Time
}

// readiness is of a ServiceCIDR that was seen to be ready, and since when.
type readiness struct {
	uid   types.UID
	since time.Time
}

// noted are names of what has changed.
type noted struct{ policies, cidrs sets.Set[string] }

func newNoted() noted { return noted{sets.New[string](), sets.New[string]()} }

// NewCache returns a Cache without policies and ranges.
func NewCache() *Cache {
	c := &Cache{dirty: make(signal, 1), ready: map[string]readiness{}, noted: newNoted()}
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
		AddFunc: c.note,
		UpdateFunc: func(before, after any) {
			if !same(before, after) {
				c.note(after)
			}
		},
		DeleteFunc: func(object any) {
			if unknown, ok := object.(toolscache.DeletedFinalStateUnknown); ok {
				object = unknown.Obj
			}
			c.note(object)
		},
	}
}

// note has an object compiled anew.
func (c *Cache) note(object any) {
	c.mu.Lock()
	switch o := object.(type) {
	case *v1alpha1.ServiceCIDRPolicy:
		c.noted.policies.Insert(o.Name)
	case *networkingv1.ServiceCIDR:
		c.noted.cidrs.Insert(o.Name)
	}
	c.mu.Unlock()
	c.dirty.set()
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

// compile compiles what was noted, as the informers have it now.
func (c *Cache) compile() {
	select {
	case <-c.dirty: // what it tells of is noted
	default:
	}
	c.mu.Lock()
	what := c.noted
	c.noted = newNoted()
	c.mu.Unlock()

	before, now := c.Current(), time.Now()
	changed := change{policies: make(map[string]*v1alpha1.ServiceCIDRPolicy, len(what.policies))}
	for name := range what.policies {
		o, _ := stored[*v1alpha1.ServiceCIDRPolicy](c.policies, name)
		changed.policies[name] = o
	}
	for name := range what.cidrs {
		if o, exists := stored[*networkingv1.ServiceCIDR](c.cidrs, name); exists {
			before.move(&changed.moved, name, c.read(o, now))
		} else {
			delete(c.ready, name)
			before.move(&changed.moved, name)
		}
	}
	c.tell(before, before.after(changed))
}

// stored returns an object that an informer has.
func stored[T any](from toolscache.SharedIndexInformer, name string) (o T, exists bool) {
	object, exists, _ := from.GetStore().GetByKey(name) // a store in memory has no errors
	if exists {
		o = object.(T)
	}
	return o, exists
}

// Set compiles what the cluster has, and tells the subscribers.
func (c *Cache) Set(in Inputs) {
	before := c.Current()
	c.tell(before, before.Recompile(in))
}

// tell makes a compilation the current one.
func (c *Cache) tell(before, after *Compiled) {
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

// read reads a ServiceCIDR, and has it read again when it has been ready for long enough.
func (c *Cache) read(o *networkingv1.ServiceCIDR, now time.Time) addressindex.ServiceCIDR {
	r := addressindex.NewServiceCIDR(o)
	if !r.Ready {
		delete(c.ready, r.Name)
		return r
	}
	if c.ready[r.Name].uid != o.UID {
		c.ready[r.Name] = readiness{o.UID, c.readySince(o, now)}
	}
	if left := readinessDelay - now.Sub(c.ready[r.Name].since); left > 0 {
		r.Ready = false
		time.AfterFunc(left, func() { c.note(o) })
	}
	return r
}

// readySince is when a range was first seen to be ready; after a start, what the range itself says.
func (c *Cache) readySince(o *networkingv1.ServiceCIDR, now time.Time) time.Time {
	condition := meta.FindStatusCondition(o.Status.Conditions, networkingv1.ServiceCIDRConditionReady)
	if !c.compiled.Load() && condition != nil && now.Sub(condition.LastTransitionTime.Time) > readinessDelay {
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
