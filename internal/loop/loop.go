// Package loop sets up control loops that differ only in their sources, pace and work.
package loop

import (
	"context"
	"time"

	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/clusterip-operator/clusterip-operator/internal/addressindex"
	"github.com/clusterip-operator/clusterip-operator/internal/refusal"
)

// Cluster is what loops have of a cluster, and of the addresses in it.
type Cluster struct {
	// Client reads from the cache and writes.
	Client client.Client
	// Live reads from the API server itself.
	Live   client.Reader
	Index  *addressindex.Index
	Events events.EventRecorder
	Clock  clock.PassiveClock
}

// Options of a control loop.
type Options struct {
	Name string
	// Workers is how many keys are reconciled at the same time.
	Workers int
	// A key that failed waits Retry, and twice as long each further time, up to LongestRetry.
	Retry, LongestRetry time.Duration
}

// Setup has r reconcile the keys of the sources, from the start of mgr.
func Setup[K comparable](mgr manager.Manager, o Options, r reconcile.TypedReconciler[K], sources ...source.TypedSource[K]) error {
	b := builder.TypedControllerManagedBy[K](mgr).Named(o.Name).WithOptions(controller.TypedOptions[K]{
		MaxConcurrentReconciles: o.Workers,
		RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[K](o.Retry, o.LongestRetry),
	})
	for _, s := range sources {
		b = b.WatchesRawSource(s)
	}
	return b.Complete(patient[K]{r})
}

// patient does not take a write for a failure that was not tried, because the API server refuses
// those of its kind.
type patient[K comparable] struct{ reconcile.TypedReconciler[K] }

// Reconcile implements reconcile.TypedReconciler.
func (p patient[K]) Reconcile(ctx context.Context, key K) (reconcile.Result, error) {
	return refusal.Wait(p.TypedReconciler.Reconcile(ctx, key))
}
