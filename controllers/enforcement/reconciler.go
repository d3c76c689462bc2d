package enforcement

import (
	"context"
	"maps"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/controllers/internal/steering"
)

// Addresses says which addresses Services have; *addressindex.Index does.
type Addresses interface {
	// Claims returns the Services whose spec.clusterIPs have the address.
	Claims(netip.Addr) []types.NamespacedName
	// Used returns the first limit used addresses of a span, ascending.
	Used(s allocator.Span, limit int) []netip.Addr
}

// Request is what to look at: an address, a policy, or, the zero Request, what the API server is given.
type Request struct {
	Address netip.Addr
	Policy  string
}

// Reconciler gives the API server what it needs to enforce policies, and tells which Services have addresses that are kept for others. All exported fields
// are required.
type Reconciler struct {
	// Client reads from the cache and writes.
	Client client.Client
	// Live reads from the API server itself.
	Live      client.Reader
	Policies  *steering.Cache
	Addresses Addresses
	// Changed is a source of addresses that Services began or ceased to have.
	Changed source.TypedSource[Request]
	Events  events.EventRecorder
	Clock   clock.PassiveClock

	objects    objects
	violations violations
	pace       pace
	wake       wake
}

var _ reconcile.TypedReconciler[Request] = (*Reconciler)(nil)

// SetupWithManager starts the controller with mgr.
func (r *Reconciler) SetupWithManager(mgr manager.Manager) error {
	relabelled := predicate.TypedFuncs[*corev1.Namespace]{
		CreateFunc: func(event.TypedCreateEvent[*corev1.Namespace]) bool { return false },
		DeleteFunc: func(event.TypedDeleteEvent[*corev1.Namespace]) bool { return false },
		UpdateFunc: func(e event.TypedUpdateEvent[*corev1.Namespace]) bool {
			return !maps.Equal(e.ObjectOld.Labels, e.ObjectNew.Labels)
		},
	}
	return builder.TypedControllerManagedBy[Request](mgr).
		Named("enforcement").
		WatchesRawSource(r.changes()).
		WatchesRawSource(&r.wake).
		WatchesRawSource(r.Changed).
		WatchesRawSource(source.TypedKind(mgr.GetCache(), &corev1.Namespace{}, handler.TypedEnqueueRequestsFromMapFunc(r.ofNamespace), relabelled)).
		WithOptions(controller.TypedOptions[Request]{
			MaxConcurrentReconciles: 2,
			RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[Request](500*time.Millisecond, time.Minute),
		}).
		Complete(r)
}

// Reconcile looks at one thing as it is now.
func (r *Reconciler) Reconcile(ctx context.Context, request Request) (reconcile.Result, error) {
	switch {
	case request.Address.IsValid():
		return r.audit(ctx, request.Address)
	case request.Policy != "":
		return r.report(ctx, request.Policy)
	default:
		return r.enforce(ctx)
	}
}

// Audits returns what to look at when an address changes: those that no policy has exclusively are nothing to look at.
func Audits(p *steering.Cache) func(netip.Addr) []Request {
	return func(a netip.Addr) []Request {
		if p.Current().Owner(a) == nil {
			return nil
		}
		return []Request{{Address: a}}
	}
}

// ofNamespace returns the addresses of the Services of a namespace: its labels have changed.
func (r *Reconciler) ofNamespace(ctx context.Context, n *corev1.Namespace) []Request {
	list := &corev1.ServiceList{}
	if err := r.Client.List(ctx, list, client.InNamespace(n.Name)); err != nil {
		return nil // the cache is not there any more
	}
	var out []Request
	for _, s := range list.Items {
		for _, text := range s.Spec.ClusterIPs {
			if a, err := netip.ParseAddr(text); err == nil {
				out = append(out, Audits(r.Policies)(a)...)
			}
		}
	}
	return out
}

// used returns the addresses of a prefix that are in use.
func (r *Reconciler) used(p netip.Prefix) []netip.Addr {
	const all = 1 << 30
	return r.Addresses.Used(steering.SpanOf(p), all)
}
