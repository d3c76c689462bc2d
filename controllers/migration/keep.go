package migration

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
)

// destroyAfter is how long an IPAddress must have been wrong before it is deleted: a Service that is deleted and created anew
// with the same address needs it again.
const destroyAfter = 500 * time.Millisecond

// Keeper keeps IPAddresses in step with Services, from events, until the cluster flips. The cost of an event does not depend
// on how many Services there are.
type Keeper struct {
	judge   judge
	writer  writer
	clock   clock.PassiveClock
	limit   *rate.Limiter
	workers int

	mu    sync.Mutex
	index *addressIndex
	since map[netip.Addr]time.Time // when a decision that destroys was first reached

	queue workqueue.TypedRateLimitingInterface[netip.Addr]
}

// NewKeeper returns a keeper for the cluster of a plan. It writes through the API server, or with throughStore into etcd, no faster
// than limit says and with as many workers.
func NewKeeper(s Sources, p Plan, throughStore bool, limit rate.Limit, workers int) *Keeper {
	k := &Keeper{
		judge: p.judge(), index: newAddressIndex(Snapshot{}), since: map[netip.Addr]time.Time{},
		writer: apiWriter{s.API, s.APIVersion}, clock: s.Clock, limit: rate.NewLimiter(limit, max(1, workers)), workers: max(1, workers),
		queue: workqueue.NewTypedRateLimitingQueue(
			workqueue.NewTypedItemExponentialFailureRateLimiter[netip.Addr](100*time.Millisecond, maxPause)),
	}
	if throughStore {
		k.writer = storeWriter{s.Store, s.Clock.Now}
	}
	return k
}

// PutService tells of a Service that is there or has changed.
func (k *Keeper) PutService(o *corev1.Service) {
	s := newService(o)
	k.mu.Lock()
	touched := k.index.putService(&s)
	k.mu.Unlock()
	k.wake(touched...)
}

// DropService tells of a Service that is gone.
func (k *Keeper) DropService(name types.NamespacedName) {
	k.mu.Lock()
	touched := k.index.dropService(name)
	k.mu.Unlock()
	k.wake(touched...)
}

// PutIPAddress tells of an IPAddress that is there or has changed. Its resourceVersion guards what is written.
func (k *Keeper) PutIPAddress(o *networkingv1.IPAddress) {
	ip, ok := newIPAddress(o)
	if !ok {
		return
	}
	k.mu.Lock()
	k.index.putIPAddress(&ip)
	k.mu.Unlock()
	k.wake(ip.Address)
}

// DropIPAddress tells of an IPAddress that is gone.
func (k *Keeper) DropIPAddress(name string) {
	a, err := netip.ParseAddr(name)
	if err != nil {
		return
	}
	k.mu.Lock()
	k.index.dropIPAddress(a)
	k.mu.Unlock()
	k.wake(a)
}

func (k *Keeper) wake(addresses ...netip.Addr) {
	for _, a := range addresses {
		k.queue.Add(a)
	}
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
	k.awaitSteady(ctx, inStep)
	<-ctx.Done()
	k.queue.ShutDown()
	workers.Wait()
}

// awaitSteady waits until every address has been found in order once, and tells.
func (k *Keeper) awaitSteady(ctx context.Context, inStep func(int)) {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if n, steady := k.steady(); steady {
			inStep(n)
			return
		}
	}
}

// steady reports whether nothing is left to do, and how many addresses Services hold.
func (k *Keeper) steady() (claimed int, steady bool) {
	if k.queue.Len() > 0 {
		return 0, false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for a, e := range k.index.entries {
		if k.judge.at(k.clock.Now()).address(a, *e).step.Do != "" {
			return 0, false
		}
		if len(e.claims) > 0 {
			claimed++
		}
	}
	return claimed, true
}

// next looks at one address, and reports whether there may be more.
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
	now := k.clock.Now()
	k.mu.Lock()
	var e entry
	if known := k.index.entries[a]; known != nil {
		e = *known
	}
	v := k.judge.at(now).address(a, e)
	again = max(v.again, k.graceLeft(a, v.step, now))
	k.mu.Unlock()
	if v.step.Do == "" || again > 0 {
		return again, nil
	}
	if err := k.limit.Wait(ctx); err != nil {
		return 0, err
	}
	if err := k.writer.apply(ctx, v.step); err != nil {
		return 0, fmt.Errorf("%s: %w", v.step.Do, err)
	}
	k.mu.Lock()
	delete(k.since, a) // the next object on this address has its own grace
	k.mu.Unlock()
	return 0, nil
}

// graceLeft is how long a step that destroys still has to wait.
func (k *Keeper) graceLeft(a netip.Addr, s Step, now time.Time) time.Duration {
	if !s.Destroys() {
		delete(k.since, a)
		return 0
	}
	first, known := k.since[a]
	if !known {
		first = now
		k.since[a] = first
	}
	return destroyAfter - now.Sub(first)
}

// at is the judge at another time.
func (j judge) at(now time.Time) judge {
	j.now = now
	return j
}
