package policy

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/clusterip-operator/clusterip-operator/controllers/internal/addressindex"
	"github.com/clusterip-operator/clusterip-operator/controllers/internal/steering"
)

// Keeper keeps the IPAddresses of reservations and of addresses that cool down, one address at a time.
// All exported fields are required. It is safe for concurrent use about different addresses.
type Keeper struct {
	// Client reads from the cache and writes.
	Client client.Client
	Index  *addressindex.Index
	Board  *steering.Cache
	Clock  clock.PassiveClock
	// APIVersion under which IPAddresses are served.
	APIVersion string
}

var _ reconcile.TypedReconciler[netip.Addr] = (*Keeper)(nil)

// SetupWithManager starts the controller with mgr.
func (k *Keeper) SetupWithManager(mgr manager.Manager) error {
	changed := steering.NewChanges(k.Board, k.addresses())
	// A range that comes or goes changes what is kept in it, whether anything is used there or not.
	ranges := addressindex.Map(k.Index.Ranges(), func(string) []netip.Addr {
		changed.Touch()
		return nil
	})
	return builder.TypedControllerManagedBy[netip.Addr](mgr).
		Named("policykeeper").
		WatchesRawSource(k.Index.Addresses()).
		WatchesRawSource(changed).
		WatchesRawSource(ranges).
		WithOptions(controller.TypedOptions[netip.Addr]{
			MaxConcurrentReconciles: 8,
			RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[netip.Addr](100*time.Millisecond, time.Minute),
		}).
		Complete(k)
}

// Reconcile gathers the inputs, lets decide decide, and applies the decision. As long as the watch does not show our last
// write at the address, there is nothing to decide.
func (k *Keeper) Reconcile(ctx context.Context, a netip.Addr) (reconcile.Result, error) {
	if left := k.Index.Writing(a); left > 0 {
		return reconcile.Result{RequeueAfter: left}, nil
	}
	w, err := k.gather(ctx, a)
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("gathering the world of %s: %w", a, err)
	}
	v := decide(w)
	if v.do == leave {
		return reconcile.Result{RequeueAfter: v.again}, nil
	}
	return k.apply(ctx, w, v)
}
