package ipaddress

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/clusterip-operator/clusterip-operator/controllers/internal/drift"
	"github.com/clusterip-operator/clusterip-operator/controllers/internal/ledger"
	"github.com/clusterip-operator/clusterip-operator/controllers/internal/metrics"
)

// Reconciler audits and repairs one address at a time. All fields but Tracker are required.
type Reconciler struct {
	// Client reads from the cache and writes.
	Client client.Client
	// Live reads from the API server itself.
	Live   client.Reader
	Ledger *ledger.Ledger
	Events events.EventRecorder
	Clock  clock.PassiveClock
	// Tracker remembers unconfirmed drift; its zero value is ready.
	Tracker drift.Tracker[netip.Addr]
	// APIVersion under which IPAddresses are served.
	APIVersion string
	// Bitmap: the API server allocates from the bitmap, so IPAddresses are ours to write.
	Bitmap bool
}

var _ reconcile.TypedReconciler[netip.Addr] = (*Reconciler)(nil)

// SetupWithManager starts the controller with mgr.
func (r *Reconciler) SetupWithManager(mgr manager.Manager) error {
	return builder.TypedControllerManagedBy[netip.Addr](mgr).
		Named("ipaddress").
		WatchesRawSource(r.Ledger.Addresses()).
		WatchesRawSource(r.Ledger.Covers()).
		WithOptions(controller.TypedOptions[netip.Addr]{
			MaxConcurrentReconciles: 8,
			RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[netip.Addr](100*time.Millisecond, time.Minute),
		}).
		Complete(r)
}

// Reconcile looks at an address in the cache; when something is wrong for long enough, it looks at the API
// server, and only when that agrees it repairs and reports.
func (r *Reconciler) Reconcile(ctx context.Context, a netip.Addr) (reconcile.Result, error) {
	w, err := r.gather(ctx, sight{r.Client, r.Client}, a)
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("gathering the world of %s: %w", a, err)
	}
	v := decide(w)
	if v.drift == drift.None && v.do == leave {
		r.Tracker.Clear(a)
		return reconcile.Result{RequeueAfter: v.again}, nil
	}
	if left := r.Tracker.Suspect(a, v.drift, w.now, v.confirm); left > 0 {
		return reconcile.Result{RequeueAfter: left}, nil
	}
	return r.confirmed(ctx, a, v)
}

// confirmed acts on a suspicion that has lasted.
func (r *Reconciler) confirmed(ctx context.Context, a netip.Addr, suspected verdict) (reconcile.Result, error) {
	w, err := r.gather(ctx, r.closeSight(suspected), a)
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("reading the world of %s from the API server: %w", a, err)
	}
	v := decide(w)
	if v.drift != suspected.drift || v.do != suspected.do {
		// The watch lags behind. Its event will wake us; look once more in case that it was coalesced.
		r.Tracker.Clear(a)
		return reconcile.Result{RequeueAfter: 2 * time.Second}, nil
	}
	return r.repair(ctx, w, v)
}

// closeSight is the second look: at the API server itself. What is to be created needs no look at the IPAddress, for the
// creation is one: a name that exists is refused. The daily work of bitmap mode needs none at the Services either; an
// IPAddress for one that is gone is removed when its end is seen.
func (r *Reconciler) closeSight(suspected verdict) sight {
	switch {
	case suspected.do != create:
		return sight{r.Live, r.Live}
	case suspected.drift == drift.None:
		return sight{r.Client, r.Client}
	default:
		return sight{r.Client, r.Live}
	}
}

// repair writes, counts and reports, in this order.
func (r *Reconciler) repair(ctx context.Context, w world, v verdict) (reconcile.Result, error) {
	done, err := r.apply(ctx, w, v.do)
	// What exists already was never missing: after a restart of the API server the watch of IPAddresses may come back seconds
	// after that of Services.
	if v.drift != drift.None && (done || err != nil) && r.Tracker.Believe(w.address) {
		metrics.DriftDetected.WithLabelValues(string(v.drift)).Inc()
	}
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("repairing %s: %w", w.address, err)
	}
	if v.drift == drift.None || !done {
		r.Tracker.Clear(w.address)
		return reconcile.Result{}, nil
	}
	r.announce(w, v)
	if v.do != leave {
		metrics.DriftRepaired.WithLabelValues(string(v.drift)).Inc()
		log.FromContext(ctx).Info("Repaired an address", "address", w.address, "drift", v.drift, "note", v.note)
	}
	return reconcile.Result{}, nil
}
