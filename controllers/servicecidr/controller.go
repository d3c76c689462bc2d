package servicecidr

import (
	"cmp"
	"context"
	"fmt"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/clusterip-operator/clusterip-operator/controllers/internal/addressindex"
	"github.com/clusterip-operator/clusterip-operator/controllers/internal/loop"
	"github.com/clusterip-operator/clusterip-operator/controllers/internal/metrics"
)

// debounce holds a range back after a change of its use, so that a burst of allocations is one reconciliation and at most one
// write. A change of the object is reconciled at once: until it has our finalizer it is not protected.
const debounce = time.Second

// Reconciler keeps one ServiceCIDR at a time. All exported fields but Networks are required.
type Reconciler struct {
	// Client reads from the cache and writes.
	Client client.Client
	// Live reads from the API server itself.
	Live   client.Reader
	Index  *addressindex.Index
	Events events.EventRecorder
	Clock  clock.PassiveClock
	Limits Limits
	// Networks are declared by the operator's configuration as used by something else.
	Networks []addressindex.Network
	// APIVersion under which ServiceCIDRs are served.
	APIVersion string

	history history
}

// SetupWithManager starts the controller with mgr. One worker: the decision about two ranges that cover each
// other must not be made for both at once.
func (r *Reconciler) SetupWithManager(mgr manager.Manager) error {
	return loop.Setup(mgr, loop.Options{Name: "servicecidr", Workers: 1, Retry: 200 * time.Millisecond, LongestRetry: time.Minute}, r,
		r.Index.Ranges(), r.Index.RangeUsage(debounce))
}

// Reconcile reads what has to do with the named ServiceCIDR, decides, and applies the decision.
func (r *Reconciler) Reconcile(ctx context.Context, name string) (reconcile.Result, error) {
	cidr := &networkingv1.ServiceCIDR{}
	if err := r.Client.Get(ctx, client.ObjectKey{Name: name}, cidr); err != nil {
		r.history.forget(name)
		metrics.BlockedDeletions.DeleteLabelValues(name)
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	in, err := r.gather(ctx, cidr)
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("reading what has to do with ServiceCIDR %s: %w", name, err)
	}
	if in.orphans > 0 {
		metrics.BlockedDeletions.WithLabelValues(name).Set(float64(in.orphans))
	} else {
		metrics.BlockedDeletions.DeleteLabelValues(name)
	}
	d := decide(in)
	switch err := r.apply(ctx, cidr, in, d); {
	case apierrors.IsConflict(err):
		// Somebody wrote between our reading and our writing. That is no error: read again.
		return reconcile.Result{RequeueAfter: 100 * time.Millisecond}, nil
	case err != nil:
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: cmp.Or(d.again, step)}, nil // step is the next sample of the forecast
}

func (r *Reconciler) apply(ctx context.Context, cidr *networkingv1.ServiceCIDR, in inputs, d decision) error {
	if !d.keep {
		return r.release(ctx, cidr)
	}
	if err := r.addFinalizers(ctx, cidr); err != nil {
		return err
	}
	written, err := r.writeConditions(ctx, cidr, d.conditions)
	if err != nil {
		return err
	}
	r.announce(cidr, in, written)
	return nil
}
