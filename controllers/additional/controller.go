package additional

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
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

// Reconciler gives and takes the additional addresses of one Service at a time. All exported fields are required.
type Reconciler struct {
	// Client reads Services, ServiceCIDRs and Namespaces from the cache, and writes.
	Client client.Client
	// Live reads from the API server itself.
	Live   client.Reader
	Index  *addressindex.Index
	Board  *steering.Cache
	Events events.EventRecorder
	Clock  clock.PassiveClock

	owners   owners
	askers   askers
	patience patience
}

var _ reconcile.Reconciler = (*Reconciler)(nil)

// SetupWithManager starts the controller with mgr.
func (r *Reconciler) SetupWithManager(mgr manager.Manager) error {
	return builder.ControllerManagedBy(mgr).
		Named("additional").
		For(&corev1.Service{}, builder.WithPredicates(r.concerned())).
		WatchesRawSource(r.addresses()).
		WatchesRawSource(r.ranges()).
		WatchesRawSource(r.policies()).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: 4,
			RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](200*time.Millisecond, time.Minute),
		}).
		Complete(r)
}

// Reconcile looks at a Service in the cache; when something is to be done, it looks at the API server, and does what that shows.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	if !r.Board.Synced() {
		return reconcile.Result{RequeueAfter: confirmFor}, nil
	}
	w, err := r.gather(ctx, r.Client, request.NamespacedName)
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("gathering the world of Service %s: %w", request, err)
	}
	if decide(w).idle() {
		r.patience.clear(w.name)
		return reconcile.Result{}, nil
	}
	if w, err = r.gather(ctx, r.Live, request.NamespacedName); err != nil {
		return reconcile.Result{}, fmt.Errorf("reading the world of Service %s from the API server: %w", request, err)
	}
	return r.act(ctx, w, decide(w))
}

// act carries a verdict out as far as it can, tells what is lacking, and says when to look again.
func (r *Reconciler) act(ctx context.Context, w world, v verdict) (reconcile.Result, error) {
	released := r.release(ctx, v.release)
	filled := r.fill(ctx, w, v)
	if err := errors.Join(released, filled.err); err != nil {
		return reconcile.Result{}, fmt.Errorf("additional addresses of Service %s: %w", w.name, err)
	}
	complaints := append(v.complaints, filled.complaints...)
	if len(complaints) == 0 && !filled.again {
		r.patience.clear(w.name)
		return reconcile.Result{}, nil
	}
	waited := r.patience.since(w.name, w.now)
	if waited >= confirmFor {
		r.tell(w, complaints)
	}
	return reconcile.Result{RequeueAfter: pause(waited)}, nil
}

// key names a Service.
func key(s *corev1.Service) types.NamespacedName {
	return types.NamespacedName{Namespace: s.Namespace, Name: s.Name}
}
