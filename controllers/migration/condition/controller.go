package condition

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/controllers/internal/addressindex"
)

// pause is between two writes, so that a migration of many addresses is a few of them.
const pause = 5 * time.Second

// Reconciler keeps the condition. All fields are required.
type Reconciler struct {
	Client     client.Client
	Index      *addressindex.Index
	Clock      clock.PassiveClock
	APIVersion string
	// Bitmap: the API server allocates from the bitmap.
	Bitmap bool

	written time.Time
}

// SetupWithManager starts the controller with mgr. There is one key: the default ServiceCIDR.
func (r *Reconciler) SetupWithManager(mgr manager.Manager) error {
	b := builder.TypedControllerManagedBy[string](mgr).
		Named("migration").
		WatchesRawSource(addressindex.Map(r.Index.Ranges(), func(name string) []string {
			if name != v1alpha1.DefaultServiceCIDR {
				return nil
			}
			return []string{name}
		}))
	if r.Bitmap {
		b = b.WatchesRawSource(addressindex.Map(r.Index.Addresses(), func(netip.Addr) []string { return []string{v1alpha1.DefaultServiceCIDR} }))
	}
	return b.WithOptions(controller.TypedOptions[string]{
		MaxConcurrentReconciles: 1,
		RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[string](200*time.Millisecond, time.Minute),
	}).Complete(r)
}

// Reconcile compares the condition with the address index.
func (r *Reconciler) Reconcile(ctx context.Context, name string) (reconcile.Result, error) {
	now := r.Clock.Now()
	if wait := pause - now.Sub(r.written); wait > 0 {
		return reconcile.Result{RequeueAfter: wait}, nil
	}
	cidr := &networkingv1.ServiceCIDR{}
	if err := r.Client.Get(ctx, client.ObjectKey{Name: name}, cidr); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	claimed, covered := r.Index.Relation()
	w := inputs{bitmap: r.Bitmap, covered: covered, claimed: claimed, now: meta.FindStatusCondition(cidr.Status.Conditions, v1alpha1.ConditionMigrated)}
	if meta.IsStatusConditionTrue(cidr.Status.Conditions, v1alpha1.ConditionDefaultRangeMismatch) {
		w.others = 1
	}
	want := decide(w)
	if want == nil {
		return reconcile.Result{}, nil
	}
	err := apply(ctx, r.Client, r.APIVersion, cidr, *want, now)
	switch {
	case apierrors.IsConflict(err):
		return reconcile.Result{RequeueAfter: 100 * time.Millisecond}, nil
	case err != nil:
		return reconcile.Result{}, fmt.Errorf("telling how far the migration is: %w", err)
	}
	r.written = now
	return reconcile.Result{}, nil
}
