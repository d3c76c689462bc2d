package steering

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
)

// readinessDelay is how long a range that has become ready is left alone: an API server that has not heard of it yet would refuse a Service that
// was given an address there. They hear of it within milliseconds.
const readinessDelay = time.Second

// settle is how long the board waits for more changes before it compiles: an apply of many policies is one change.
const settle = 30 * time.Millisecond

// Board holds the Snapshot of the cluster as it is now. It runs on every replica, for every replica answers the API server. Make one
// with NewBoard; all methods are safe for concurrent use.
type Board struct {
	current   atomic.Pointer[Snapshot]
	compiled  atomic.Bool
	dirty     chan struct{}
	informers []toolscache.ResourceEventHandlerRegistration
	policies  toolscache.SharedIndexInformer
	cidrs     toolscache.SharedIndexInformer
	// ready is since when each range was seen to be ready; only compile uses it.
	ready map[types.UID]time.Time

	mu        sync.Mutex
	listeners []func(before, after *Snapshot)
}

// NewBoard returns a board with an empty Snapshot.
func NewBoard() *Board {
	b := &Board{dirty: make(chan struct{}, 1)}
	b.current.Store(Compile(World{}))
	return b
}

// Current returns the Snapshot, never nil.
func (b *Board) Current() *Snapshot { return b.current.Load() }

// Synced reports whether the Snapshot was made of a complete listing.
func (b *Board) Synced() bool { return b.compiled.Load() }

// Subscribe calls f after each change. It must not block. Subscribe before Start.
func (b *Board) Subscribe(f func(before, after *Snapshot)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.listeners = append(b.listeners, f)
}

// Watch connects the board to the informers of the cache, and returns at once.
func (b *Board) Watch(ctx context.Context, informers cache.Informers) error {
	for object, into := range map[client.Object]*toolscache.SharedIndexInformer{
		&v1alpha1.ServiceCIDRPolicy{}: &b.policies,
		&networkingv1.ServiceCIDR{}:   &b.cidrs,
	} {
		informer, err := informers.GetInformer(ctx, object, cache.BlockUntilSynced(false))
		if err != nil {
			return fmt.Errorf("watching %T: %w", object, err)
		}
		shared, ok := informer.(toolscache.SharedIndexInformer)
		if !ok {
			return fmt.Errorf("watching %T: the cache has informers of type %T", object, informer)
		}
		registration, err := shared.AddEventHandler(b.handler())
		if err != nil {
			return fmt.Errorf("watching %T: %w", object, err)
		}
		*into = shared
		b.informers = append(b.informers, registration)
	}
	return nil
}

// handler notes changes of spec, labels and life. Status is written by the operator itself, and says nothing new.
func (b *Board) handler() toolscache.ResourceEventHandler {
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { b.touch() },
		UpdateFunc: func(before, after any) {
			if !same(before, after) {
				b.touch()
			}
		},
		DeleteFunc: func(any) { b.touch() },
	}
}

// same reports whether two versions of an object say the same here.
func same(before, after any) bool {
	switch after := after.(type) {
	case *v1alpha1.ServiceCIDRPolicy:
		before := before.(*v1alpha1.ServiceCIDRPolicy)
		return before.Generation == after.Generation && before.UID == after.UID
	case *networkingv1.ServiceCIDR:
		before := before.(*networkingv1.ServiceCIDR)
		return before.UID == after.UID && reflect.DeepEqual(NewServiceCIDR(before), NewServiceCIDR(after))
	}
	return false
}

func (b *Board) touch() {
	select {
	case b.dirty <- struct{}{}:
	default:
	}
}

// NeedLeaderElection implements manager.LeaderElectionRunnable: every replica needs the board.
func (b *Board) NeedLeaderElection() bool { return false }

// Start implements manager.Runnable: it compiles whenever something has changed, until ctx ends.
func (b *Board) Start(ctx context.Context) error {
	if !toolscache.WaitForCacheSync(ctx.Done(), b.listed) {
		return nil // asked to stop
	}
	for {
		b.compile()
		select {
		case <-ctx.Done():
			return nil
		case <-b.dirty:
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(settle):
		}
	}
}

func (b *Board) listed() bool {
	return !slices.ContainsFunc(b.informers, func(r toolscache.ResourceEventHandlerRegistration) bool { return !r.HasSynced() })
}

func (b *Board) compile() {
	select {
	case <-b.dirty: // what it tells of is in the listing that follows
	default:
	}
	var w World
	for _, o := range b.policies.GetStore().List() {
		w.Policies = append(w.Policies, o.(*v1alpha1.ServiceCIDRPolicy))
	}
	w.ServiceCIDRs = b.ranges(time.Now())
	after := Compile(w)
	before := b.current.Swap(after)
	b.mu.Lock()
	listeners := b.listeners
	b.mu.Unlock()
	for _, f := range listeners {
		f(before, after)
	}
	b.compiled.Store(true)
}

// ranges reads the ServiceCIDRs. Those that have just become ready are not ready yet, and looked at again later.
func (b *Board) ranges(now time.Time) []ServiceCIDR {
	var out []ServiceCIDR
	ready := map[types.UID]time.Time{}
	for _, item := range b.cidrs.GetStore().List() {
		o := item.(*networkingv1.ServiceCIDR)
		c := NewServiceCIDR(o)
		if c.Ready {
			ready[o.UID] = b.readySince(o, now)
			if left := readinessDelay - now.Sub(ready[o.UID]); left > 0 {
				c.Ready = false
				time.AfterFunc(left, b.touch)
			}
		}
		out = append(out, c)
	}
	b.ready = ready
	return out
}

// readySince is when a range was first seen to be ready. After a start that is what the range says of itself.
func (b *Board) readySince(o *networkingv1.ServiceCIDR, now time.Time) time.Time {
	if at, ok := b.ready[o.UID]; ok {
		return at
	}
	condition := meta.FindStatusCondition(o.Status.Conditions, networkingv1.ServiceCIDRConditionReady)
	if b.ready == nil && condition != nil && now.Sub(condition.LastTransitionTime.Time) > readinessDelay {
		return time.Time{}
	}
	return now
}
