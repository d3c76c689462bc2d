package policy

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/controllers/internal/addressindex"
	"github.com/clusterip-operator/clusterip-operator/controllers/internal/steering"
)

const (
	// every is how often a policy is looked at, and so written, at most: a burst of allocations is one look.
	every = 2 * time.Second
	// countsEvery is how often a policy is written at most because of counts that moved: each write goes to etcd and to every replica.
	// What people wait for, a range that is full or has room again, is not among these counts.
	countsEvery = 30 * time.Second
	// uncompiled is when to look again at a policy that is newer than the rules. The policy cache tells too.
	uncompiled = 500 * time.Millisecond
)

// Reporter writes the status of one ServiceCIDRPolicy at a time. All exported fields are required.
type Reporter struct {
	// Client reads from the cache and writes.
	Client client.Client
	Index  *addressindex.Index
	Board  *steering.Cache
	Events events.EventRecorder
	Clock  clock.PassiveClock

	pace  pace
	index indexes
}

var _ reconcile.TypedReconciler[string] = (*Reporter)(nil)

// SetupWithManager starts the controller with mgr.
func (r *Reporter) SetupWithManager(mgr manager.Manager) error {
	name := func(_ context.Context, p *v1alpha1.ServiceCIDRPolicy) []string { return []string{p.Name} }
	return builder.TypedControllerManagedBy[string](mgr).
		Named("policystatus").
		WatchesRawSource(source.TypedKind(mgr.GetCache(), &v1alpha1.ServiceCIDRPolicy{}, handler.TypedEnqueueRequestsFromMapFunc(name))).
		WatchesRawSource(steering.NewChanges(r.Board, r.policies())).
		WatchesRawSource(addressindex.Map(r.Index.RangeUsage(every), r.users)).
		WatchesRawSource(addressindex.Map(r.Index.Addresses(), r.reserver)).
		WithOptions(controller.TypedOptions[string]{
			MaxConcurrentReconciles: 4,
			RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[string](500*time.Millisecond, time.Minute),
		}).
		Complete(r)
}

// users are the policies that have ranges of a ServiceCIDR, or of one that overlaps it: these are told of the same addresses.
func (r *Reporter) users(cidr string) []string { return r.index.of(r.Board.Current()).users[cidr] }

// reserver is the policy that reserves an address.
func (r *Reporter) reserver(a netip.Addr) []string {
	if held, ok := r.Board.Current().Reservation(a); ok {
		return []string{held.Policy}
	}
	return nil
}

// Reconcile compares what the status of a policy says with what it should say, and applies that if they differ.
func (r *Reporter) Reconcile(ctx context.Context, name string) (reconcile.Result, error) {
	now := r.Clock.Now()
	if left := r.pace.left(name, now); left > 0 {
		return reconcile.Result{RequeueAfter: left}, nil
	}
	o := &v1alpha1.ServiceCIDRPolicy{}
	if err := r.Client.Get(ctx, client.ObjectKey{Name: name}, o); err != nil {
		r.pace.forget(name)
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	w, ok := r.look(o)
	if !ok {
		return reconcile.Result{RequeueAfter: uncompiled}, nil
	}
	r.pace.start(name, now)
	if err := r.nameHolders(ctx, &w); err != nil {
		return reconcile.Result{}, err
	}
	switch again, err := r.publish(ctx, o, report(w)); {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		// Deleted, or created anew, since the cache was told. It will be.
		return reconcile.Result{RequeueAfter: every}, nil
	case err != nil:
		return reconcile.Result{}, fmt.Errorf("writing the status of ServiceCIDRPolicy %s: %w", name, err)
	default:
		return reconcile.Result{RequeueAfter: again}, nil
	}
}
