package additional

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/controllers/internal/addressindex"
	"github.com/clusterip-operator/clusterip-operator/controllers/internal/objects"
	"github.com/clusterip-operator/clusterip-operator/controllers/internal/refusal"
	"github.com/clusterip-operator/clusterip-operator/controllers/internal/steering"
)

const (
	// confirmFor is how long an address must be lacking before it is told: a Service and its ServiceCIDR often come together.
	confirmFor = 2 * time.Second
	// longestPause between two tries. Ranges, policies and Services wake those who wait; only addresses that became free do not.
	longestPause = 30 * time.Second
)

// Reconciler gives and takes the additional addresses of one Service at a time. All exported fields are required.
type Reconciler struct {
	// Client reads Services, ServiceCIDRs and Namespaces from the cache, and writes.
	Client client.Client
	// Live reads from the API server itself.
	Live     client.Reader
	Index    *addressindex.Index
	Policies *steering.Cache
	Events   events.EventRecorder
	Clock    clock.PassiveClock

	// What a process remembers, and may forget. The queue lets one worker at a time work on a Service.

	asks    sync.Map // name of a Service -> the names of ServiceCIDRs ([]string) that it asks for addresses
	owners  sync.Map // additional address -> the name of its Service: the address index does not say it any more when the IPAddress is gone
	waiting sync.Map // name of a Service that lacks an address -> *wait
}

// wait is since when a Service lacks an address, and what it was told.
type wait struct {
	since time.Time
	told  []string
}

// SetupWithManager starts the controller with mgr.
func (r *Reconciler) SetupWithManager(mgr manager.Manager) error {
	return builder.ControllerManagedBy(mgr).
		Named("additional").
		For(&corev1.Service{}, builder.WithPredicates(predicate.NewPredicateFuncs(r.concerns))).
		WatchesRawSource(addressindex.Map(r.Index.Addresses(), r.ownersOf)).
		WatchesRawSource(addressindex.Map(r.Index.Ranges(), r.askersOf)).
		WatchesRawSource(source.Func(r.wakeWaiting)).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: 4,
			RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](200*time.Millisecond, time.Minute),
		}).
		Complete(r)
}

// concerns lets the events of Services through that ask for addresses, or have some; in most clusters those are few.
func (r *Reconciler) concerns(o client.Object) bool {
	return o.GetAnnotations()[v1alpha1.AnnotationAdditionalFrom] != "" || len(r.Index.Additional(client.ObjectKeyFromObject(o))) > 0
}

// ownersOf returns the Services whose additional address it is, and was; at the start, those of all there are.
func (r *Reconciler) ownersOf(a netip.Addr) (out []reconcile.Request) {
	var before any
	if k, ok := r.Index.Owned(a); ok && k.Purpose == v1alpha1.PurposeAdditional {
		out = append(out, reconcile.Request{NamespacedName: k.Service})
		before, _ = r.owners.Swap(a, k.Service)
	} else {
		before, _ = r.owners.LoadAndDelete(a)
	}
	if name, ok := before.(types.NamespacedName); ok {
		out = append(out, reconcile.Request{NamespacedName: name})
	}
	return out
}

// askersOf returns the Services that name a ServiceCIDR.
func (r *Reconciler) askersOf(serviceCIDR string) (out []reconcile.Request) {
	r.asks.Range(func(name, from any) bool {
		if slices.Contains(from.([]string), serviceCIDR) {
			out = append(out, reconcile.Request{NamespacedName: name.(types.NamespacedName)})
		}
		return true
	})
	return out
}

// wakeWaiting wakes those who lack an address whenever policies or ranges have changed.
func (r *Reconciler) wakeWaiting(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	r.Policies.Subscribe(func(_, _ *steering.Compiled) {
		r.waiting.Range(func(name, _ any) bool {
			queue.Add(reconcile.Request{NamespacedName: name.(types.NamespacedName)})
			return true
		})
	})
	return nil
}

// Reconcile looks at a Service in the cache; when something is to be done, it looks at the API server, and does what that shows.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	if !r.Policies.Synced() {
		return reconcile.Result{RequeueAfter: confirmFor}, nil
	}
	in, err := r.gather(ctx, r.Client, request.NamespacedName)
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("reading what has to do with Service %s: %w", request, err)
	}
	if decide(in).idle() {
		r.waiting.Delete(in.name)
		return reconcile.Result{}, nil
	}
	if in, err = r.gather(ctx, r.Live, request.NamespacedName); err != nil {
		return reconcile.Result{}, fmt.Errorf("reading Service %s from the API server: %w", request, err)
	}
	return refusal.Wait(r.act(ctx, in, decide(in)))
}

// act carries a decision out as far as it can, tells what is lacking, and says when to look again: after as long again as it took until now.
func (r *Reconciler) act(ctx context.Context, in inputs, d decision) (reconcile.Result, error) {
	released := r.release(ctx, d.release)
	full, err := r.fill(ctx, in, d.draw)
	if err := errors.Join(released, err); err != nil {
		return reconcile.Result{}, fmt.Errorf("additional addresses of Service %s: %w", in.name, err)
	}
	complaints := append(d.complaints, full...)
	if len(complaints) == 0 {
		r.waiting.Delete(in.name)
		return reconcile.Result{}, nil
	}
	known, _ := r.waiting.LoadOrStore(in.name, &wait{since: in.now})
	w := known.(*wait)
	waited := in.now.Sub(w.since)
	if waited >= confirmFor {
		r.tell(in, w, complaints)
	}
	return reconcile.Result{RequeueAfter: min(max(waited, confirmFor), longestPause)}, nil
}

// gather reads the Service from reader, and all else from what the process keeps.
func (r *Reconciler) gather(ctx context.Context, reader client.Reader, name types.NamespacedName) (inputs, error) {
	in := inputs{now: r.Clock.Now(), name: name, offers: map[slot]offer{}}
	s, err := objects.Get(ctx, reader, name, &corev1.Service{})
	if err != nil {
		return in, err
	}
	for a, k := range r.Index.Additional(name) {
		in.held = append(in.held, held{address: a, uid: k.UID, serviceCIDR: k.ServiceCIDR, service: k.ServiceUID, former: k.Former, deleted: k.Deleted})
	}
	if s == nil {
		r.asks.Delete(name)
		return in, nil
	}
	in.service = &service{uid: s.UID, created: s.CreationTimestamp.Time, deleting: !s.DeletionTimestamp.IsZero(), asks: steering.AdditionalRequestOf(s)}
	r.asks.Store(name, in.service.asks.From) // before the ranges are read, so that no change falls between
	if len(in.service.asks.From) == 0 {
		r.asks.Delete(name)
	}
	return in, r.addOffers(ctx, &in, s)
}

// addOffers enters what there is for each slot that the Service asks for, and for the empty ones what may be drawn from.
func (r *Reconciler) addOffers(ctx context.Context, in *inputs, s *corev1.Service) error {
	for _, name := range in.service.asks.From {
		cidr, err := objects.Get(ctx, r.Client, types.NamespacedName{Name: name}, &networkingv1.ServiceCIDR{})
		if err != nil {
			return err
		}
		if cidr == nil {
			continue
		}
		c := addressindex.NewServiceCIDR(cidr)
		for _, is4 := range in.service.asks.Families() {
			ranges := slices.DeleteFunc(slices.Clone(c.Ranges), func(rng allocator.Range) bool { return rng.Prefix().Addr().Is4() != is4 })
			in.offers[slot{name, is4}] = offer{exists: true, deleting: c.Terminating, ready: c.Ready, ranges: ranges}
		}
	}
	namespace, err := objects.Get(ctx, r.Client, types.NamespacedName{Name: s.Namespace}, &corev1.Namespace{})
	if err != nil {
		return err
	}
	who := steering.Service{NamespacedName: in.name, Labels: s.Labels}
	if namespace != nil {
		who.NamespaceLabels = namespace.Labels
	}
	filled, _ := in.slots()
	for at, o := range in.offers {
		if _, has := filled[at]; has || len(o.ranges) == 0 {
			continue
		}
		tiers, refusal := r.Policies.Current().Additional(who, at.serviceCIDR, at.is4)
		if o.tiers = tiers; refusal != nil {
			o.refusal = refusal.Message
		}
		in.offers[at] = o
	}
	return nil
}
