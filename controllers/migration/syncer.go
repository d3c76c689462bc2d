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

	"github.com/clusterip-operator/clusterip-operator/internal/batch"
	"github.com/clusterip-operator/clusterip-operator/internal/compact"
	"github.com/clusterip-operator/clusterip-operator/internal/relation"
)

// destroyAfter is how long an IPAddress must have been wrong before it is deleted: a Service that
// is deleted and created anew with the same address needs it again.
const destroyAfter = 500 * time.Millisecond

// Syncer keeps IPAddresses in step with Services, from events, until the cluster flips. The cost of
// an event does not depend on how many Services there are.
type Syncer struct {
	write   func(context.Context, Step) error
	clock   clock.PassiveClock
	limit   *rate.Limiter
	workers int

	mu    sync.Mutex
	judge judge
	index *holders
	since map[netip.Addr]time.Time // when a decision that destroys was first reached

	queue workqueue.TypedRateLimitingInterface[netip.Addr]
}

// NewSyncer returns a syncer for the cluster of a plan. It writes at that pace, through the API
// server or, with throughStore, into etcd.
func NewSyncer(s Sources, p Plan, throughStore bool, pace batch.Pace) *Syncer {
	syncer := &Syncer{
		judge: p.judge(), index: newHolders(Snapshot{}), since: map[netip.Addr]time.Time{},
		write: apiWriter(s).apply, clock: s.Clock, limit: pace.Limiter(), workers: max(1, pace.Workers),
		queue: workqueue.NewTypedRateLimitingQueue(
			workqueue.NewTypedItemExponentialFailureRateLimiter[netip.Addr](100*time.Millisecond, batch.MaxPause)),
	}
	if throughStore {
		syncer.write = storeWriter(s).apply
	}
	return syncer
}

// put enters a Service or an IPAddress. It ignores other objects, and names that are no address.
func (s *Syncer) put(o any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch o := o.(type) {
	case *corev1.Service:
		service := newService(o)
		s.enqueue(s.index.putService(&service)...)
	case *networkingv1.IPAddress:
		if ip, ok := relation.NewIPAddress(o); ok {
			s.index.putIPAddress(&ip)
			s.enqueue(ip.Address)
		}
	}
}

// drop tells of a Service, "namespace/name", or an IPAddress that is gone.
func (s *Syncer) drop(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if namespace, name, ok := strings.Cut(key, "/"); ok {
		s.enqueue(s.index.dropService(types.NamespacedName{Namespace: namespace, Name: name})...)
	} else if a, err := netip.ParseAddr(key); err == nil {
		s.index.dropIPAddress(a)
		s.enqueue(a)
	}
}

func (s *Syncer) enqueue(touched ...netip.Addr) {
	for _, a := range touched {
		s.queue.Add(a)
	}
}

// FollowAPI tells the syncer of every Service and IPAddress, from the started cache's informers. It
// returns when all that exists has been told.
func (s *Syncer) FollowAPI(ctx context.Context, informers cache.Informers) error {
	handler := toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { s.put(compact.Expand(o)) },
		UpdateFunc: func(_, o any) { s.put(compact.Expand(o)) },
		DeleteFunc: func(o any) {
			if key, err := toolscache.DeletionHandlingMetaNamespaceKeyFunc(o); err == nil {
				s.drop(key)
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

// FollowStore tells the syncer of every Service and IPAddress in etcd until ctx ends. It calls told
// when all that exists was told. If etcd forgot unseen changes, it begins anew.
func (s *Syncer) FollowStore(ctx context.Context, store Store, told func()) error {
	for {
		revision, err := s.readStore(ctx, store)
		if err != nil {
			return err
		}
		told()
		group, ctx := errgroup.WithContext(ctx)
		for _, prefix := range []string{prefixServices, prefixIPAddresses} { // and nothing else of what an API server stores
			group.Go(func() error {
				return store.Watch(ctx, prefix, revision, func(v Value) error {
					s.put(v.Object)
					if !v.Exists() {
						s.drop(strings.TrimPrefix(v.Key, prefix))
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

// readStore puts all of one revision and drops the rest. The check reports undecodable values.
func (s *Syncer) readStore(ctx context.Context, store Store) (revision int64, err error) {
	gone := s.index.keys()                                               // no other goroutine changes the index
	for _, prefix := range []string{prefixServices, prefixIPAddresses} { // no IPAddress is without its Service meanwhile
		revision, err = store.List(ctx, prefix, revision, func(v Value) error {
			gone.Delete(strings.TrimPrefix(v.Key, prefix))
			s.put(v.Object)
			return nil
		})
		if err != nil {
			return 0, fmt.Errorf("reading %s: %w", prefix, err)
		}
	}
	for key := range gone {
		s.drop(key)
	}
	return revision, nil
}

// Run works until ctx ends. It calls inStep once, when everything known before has been looked at.
// Call it when all Services and IPAddresses have been told.
func (s *Syncer) Run(ctx context.Context, inStep func(addresses int)) {
	var workers sync.WaitGroup
	for range s.workers {
		workers.Go(func() {
			for s.next(ctx) {
			}
		})
	}
	claimed := 0
	err := wait.PollUntilContextCancel(ctx, 200*time.Millisecond, false, func(context.Context) (steady bool, err error) {
		claimed, steady = s.steady()
		return steady, nil
	})
	if err == nil {
		inStep(claimed)
	}
	<-ctx.Done()
	s.queue.ShutDown()
	workers.Wait()
}

func (s *Syncer) steady() (claimed int, steady bool) {
	if s.queue.Len() > 0 {
		return 0, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.judge.now = s.clock.Now()
	for a, e := range s.index.entries {
		if s.judge.address(a, e).step.Do != "" {
			return 0, false
		}
		if len(e.claims) > 0 {
			claimed++
		}
	}
	return claimed, true
}

func (s *Syncer) next(ctx context.Context) bool {
	a, shut := s.queue.Get()
	if shut {
		return false
	}
	defer s.queue.Done(a)
	again, err := s.sync(ctx, a)
	switch {
	case errors.Is(err, batch.ErrMoved):
		s.queue.AddRateLimited(a) // the event of the other write is on its way
	case err != nil && ctx.Err() == nil:
		logr.FromContextOrDiscard(ctx).Error(err, "An IPAddress could not be brought in step; trying again", "address", a.String())
		s.queue.AddRateLimited(a)
	default:
		s.queue.Forget(a)
	}
	if again > 0 {
		s.queue.AddAfter(a, again)
	}
	return true
}

// sync judges an address and carries out the decision. Call it again after again, if that is not 0.
func (s *Syncer) sync(ctx context.Context, a netip.Addr) (again time.Duration, err error) {
	s.mu.Lock()
	s.judge.now = s.clock.Now()
	v := s.judge.address(a, s.index.entries[a])
	again = max(v.again, s.graceLeft(a, v.step))
	s.mu.Unlock()
	if v.step.Do == "" || again > 0 {
		return again, nil
	}
	if err := s.limit.Wait(ctx); err != nil {
		return 0, err
	}
	if err := s.write(ctx, v.step); err != nil {
		return 0, fmt.Errorf("%s: %w", v.step.Do, err)
	}
	s.mu.Lock()
	delete(s.since, a) // the next object on this address has its own grace
	s.mu.Unlock()
	return 0, nil
}

func (s *Syncer) graceLeft(a netip.Addr, step Step) time.Duration {
	if step.Do == "" || !step.Destroys() {
		delete(s.since, a)
		return 0
	}
	if _, known := s.since[a]; !known {
		s.since[a] = s.judge.now
	}
	return destroyAfter - s.judge.now.Sub(s.since[a])
}
