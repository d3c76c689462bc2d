package migration

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// destroyAfter is how long an IPAddress must have been wrong before it is deleted: a Service that is deleted and created anew
// with the same address needs it again.
const destroyAfter = 500 * time.Millisecond

// Keeper keeps IPAddresses in step with Services, from events, until the cluster flips. The cost of an event does not depend
// on how many Services there are.
type Keeper struct {
	write   func(context.Context, Step) error
	clock   clock.PassiveClock
	limit   *rate.Limiter
	workers int

	mu    sync.Mutex
	judge judge
	index *addressIndex
	since map[netip.Addr]time.Time // when a decision that destroys was first reached

	queue workqueue.TypedRateLimitingInterface[netip.Addr]
}

// NewKeeper returns a keeper for the cluster of a plan. It writes through the API server, or with throughStore into etcd, no faster
// than limit says and with as many workers.
func NewKeeper(s Sources, p Plan, throughStore bool, limit rate.Limit, workers int) *Keeper {
	k := &Keeper{
		judge: p.judge(), index: newAddressIndex(Snapshot{}), since: map[netip.Addr]time.Time{},
		write: apiWriter(s).apply, clock: s.Clock, limit: rate.NewLimiter(limit, max(1, workers)), workers: max(1, workers),
		queue: workqueue.NewTypedRateLimitingQueue(
			workqueue.NewTypedItemExponentialFailureRateLimiter[netip.Addr](100*time.Millisecond, maxPause)),
	}
	if throughStore {
		k.write = storeWriter(s).apply
	}
	return k
}

// put tells of a Service or an IPAddress that is there or has changed. What is neither, or has no address for a name, is left out.
func (k *Keeper) put(o any) {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch o := o.(type) {
	case *corev1.Service:
		s := newService(o)
		k.enqueue(k.index.putService(&s)...)
	case *networkingv1.IPAddress:
		if ip, ok := newIPAddress(o); ok {
			k.index.putIPAddress(&ip)
			k.enqueue(ip.Address)
		}
	}
}

// drop tells of a Service, "namespace/name", or an IPAddress that is gone.
func (k *Keeper) drop(key string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if namespace, name, ok := strings.Cut(key, "/"); ok {
		k.enqueue(k.index.dropService(types.NamespacedName{Namespace: namespace, Name: name})...)
	} else if a, err := netip.ParseAddr(key); err == nil {
		k.index.dropIPAddress(a)
		k.enqueue(a)
	}
}

func (k *Keeper) enqueue(touched ...netip.Addr) {
	for _, a := range touched {
		k.queue.Add(a)
	}
}

// FollowAPI tells the keeper of every Service and IPAddress, from the cache's informers. It returns when all that exists has
// been told; the cache must have been started.
func (k *Keeper) FollowAPI(ctx context.Context, informers cache.Informers) error {
	handler := toolscache.ResourceEventHandlerFuncs{
		AddFunc:    k.put,
		UpdateFunc: func(_, o any) { k.put(o) },
		DeleteFunc: func(o any) {
			if key, err := toolscache.DeletionHandlingMetaNamespaceKeyFunc(o); err == nil {
				k.drop(key)
			}
		},
	}
	for _, kind := range []client.Object{&networkingv1.IPAddress{}, &corev1.Service{}} {
		informer, err := informers.GetInformer(ctx, kind)
		if err != nil {
			return fmt.Errorf("watching %T: %w", kind, err)
		}
		registration, err := informer.AddEventHandler(handler)
		if err != nil {
			return fmt.Errorf("watching %T: %w", kind, err)
		}
		if !toolscache.WaitForCacheSync(ctx.Done(), registration.HasSynced) {
			return ctx.Err()
		}
	}
	return nil
}

// FollowStore tells the keeper of every Service and IPAddress in etcd. It calls told when all that exists has been told, and
// goes on until ctx ends. When etcd has forgotten changes that were not seen yet, it begins anew.
func (k *Keeper) FollowStore(ctx context.Context, store Store, told func()) error {
	for {
		revision, err := k.readStore(ctx, store)
		if err != nil {
			return err
		}
		told()
		group, ctx := errgroup.WithContext(ctx)
		for _, prefix := range []string{prefixServices, prefixIPAddresses} { // and nothing else of what an API server stores
			group.Go(func() error {
				return store.Watch(ctx, prefix, revision, func(v Value) error {
					if k.put(v.Object); !v.Exists() {
						k.drop(strings.TrimPrefix(v.Key, prefix))
					}
					return nil
				})
			})
		}
		if err := group.Wait(); !errors.Is(err, ErrCompacted) {
			return err
		}
	}
}

// readStore tells all that is there at one revision, and forgets what is not. What cannot be decoded is left out: the check reports it.
func (k *Keeper) readStore(ctx context.Context, store Store) (revision int64, err error) {
	gone := k.index.keys()                                               // nobody else changes the index
	for _, prefix := range []string{prefixServices, prefixIPAddresses} { // no IPAddress is without its Service meanwhile
		revision, err = store.List(ctx, prefix, revision, func(v Value) error {
			gone.Delete(strings.TrimPrefix(v.Key, prefix))
			k.put(v.Object)
			return nil
		})
		if err != nil {
			return 0, fmt.Errorf("reading %s: %w", prefix, err)
		}
	}
	for key := range gone {
		k.drop(key)
	}
	return revision, nil
}

// Run works until ctx ends. It calls inStep once, when everything that was known before has been looked at; call it when all
// Services and IPAddresses have been told.
func (k *Keeper) Run(ctx context.Context, inStep func(addresses int)) {
	var workers sync.WaitGroup
	for range k.workers {
		workers.Go(func() {
			for k.next(ctx) {
			}
		})
	}
	claimed := 0
	err := wait.PollUntilContextCancel(ctx, 200*time.Millisecond, false, func(context.Context) (steady bool, err error) {
		claimed, steady = k.steady()
		return steady, nil
	})
	if err == nil {
		inStep(claimed)
	}
	<-ctx.Done()
	k.queue.ShutDown()
	workers.Wait()
}

func (k *Keeper) steady() (claimed int, steady bool) {
	if k.queue.Len() > 0 {
		return 0, false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.judge.now = k.clock.Now()
	for a, e := range k.index.entries {
		if k.judge.address(a, e).step.Do != "" {
			return 0, false
		}
		if len(e.claims) > 0 {
			claimed++
		}
	}
	return claimed, true
}

func (k *Keeper) next(ctx context.Context) bool {
	a, shut := k.queue.Get()
	if shut {
		return false
	}
	defer k.queue.Done(a)
	again, err := k.look(ctx, a)
	switch {
	case errors.Is(err, errMoved):
		k.queue.AddRateLimited(a) // the event of the other write is on its way
	case err != nil && ctx.Err() == nil:
		logr.FromContextOrDiscard(ctx).Error(err, "An IPAddress could not be brought in step; trying again", "address", a.String())
		k.queue.AddRateLimited(a)
	default:
		k.queue.Forget(a)
	}
	if again > 0 {
		k.queue.AddAfter(a, again)
	}
	return true
}

// look judges an address and carries out the decision. again asks for another look later.
func (k *Keeper) look(ctx context.Context, a netip.Addr) (again time.Duration, err error) {
	k.mu.Lock()
	k.judge.now = k.clock.Now()
	v := k.judge.address(a, k.index.entries[a])
	again = max(v.again, k.graceLeft(a, v.step))
	k.mu.Unlock()
	if v.step.Do == "" || again > 0 {
		return again, nil
	}
	if err := k.limit.Wait(ctx); err != nil {
		return 0, err
	}
	if err := k.write(ctx, v.step); err != nil {
		return 0, fmt.Errorf("%s: %w", v.step.Do, err)
	}
	k.mu.Lock()
	delete(k.since, a) // the next object on this address has its own grace
	k.mu.Unlock()
	return 0, nil
}

func (k *Keeper) graceLeft(a netip.Addr, s Step) time.Duration {
	if s.Do == "" || !s.Destroys() {
		delete(k.since, a)
		return 0
	}
	if _, known := k.since[a]; !known {
		k.since[a] = k.judge.now
	}
	return destroyAfter - k.judge.now.Sub(k.since[a])
}
