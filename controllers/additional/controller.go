package additional

import (
	"cmp"
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
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/lru"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/internal/addressindex"
	"github.com/clusterip-operator/clusterip-operator/internal/loop"
	"github.com/clusterip-operator/clusterip-operator/internal/objects"
	"github.com/clusterip-operator/clusterip-operator/internal/refusal"
	"github.com/clusterip-operator/clusterip-operator/internal/steering"
)

const (
	// confirmFor must pass before a lack is told: a Service and its ServiceCIDR often come together.
	confirmFor = 2 * time.Second
	// longestPause between two looks whether a full range has room again. Whatever else a Service
	// waits for wakes it: ranges, policies, the labels of its namespace, and itself.
	longestPause = 30 * time.Second
)

// What the Services of one namespace cost at most: a tenant may write a Service that lacks another
// address each time, or drop what it asks for and ask again, as fast as the API server lets it.
const (
	tellEvery = 10 * time.Second
	// tellBurst bounds the events of what Services lack, newsBurst those of what they got.
	tellBurst, newsBurst = 10, 32
	// drawEvery and drawBurst bound the IPAddresses written, and so those deleted or cooling down. The
	// burst serves many Services at once that ask for eight addresses, the most that one may.
	drawEvery, drawBurst = 200 * time.Millisecond, 128
	// namespaces is how many have their limits remembered: those that were served last.
	namespaces = 1024
)

// Reconciler gives and takes additional addresses, by Service. All exported fields are required.
type Reconciler struct {
	loop.Cluster
	Policies *steering.Cache

	// What a process remembers, and may forget. The queue lets one worker at a time work on a Service.

	asks sync.Map // names of the Services that ask for addresses
	// Additional address -> name of its Service, which the address index forgets with the IPAddress.
	owners  sync.Map
	waiting sync.Map   // name of a Service that lacks an address -> *wait
	limits  *lru.Cache // namespace -> *limits
}

// wait is what is known of a Service that lacks an address.
type wait struct {
	service types.UID
	since   time.Time
	// told are the complaints that it was told last.
	told []string
	// version and policies are those of the last look, full the tiers without room then, once that was
	// told. Unless version or policies have changed, only these tiers are looked at.
	version  string
	policies *steering.Compiled
	full     [][]*allocator.Tier
}

// SetupWithManager starts the controller with mgr.
func (r *Reconciler) SetupWithManager(mgr manager.Manager) error {
	r.limits = lru.New(namespaces)
	return builder.ControllerManagedBy(mgr).
		Named("additional").
		For(&corev1.Service{}, builder.WithPredicates(predicate.NewPredicateFuncs(r.concerns))).
		WatchesRawSource(addressindex.Map(r.Index.Addresses(), r.ownersOf)).
		WatchesRawSource(source.Func(r.wakeAskers)).
		Watches(&corev1.Namespace{}, handler.EnqueueRequestsFromMapFunc(r.waitingIn), builder.WithPredicates(predicate.LabelChangedPredicate{})).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: 4,
			RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](200*time.Millisecond, time.Minute),
		}).
		Complete(r)
}

// concerns lets the events of the few Services through that ask for addresses or have some.
func (r *Reconciler) concerns(o client.Object) bool {
	name := client.ObjectKeyFromObject(o)
	_, asked := r.asks.Load(name)
	_, lacks := r.waiting.Load(name) // of both nothing may stay behind
	return asked || lacks || o.GetAnnotations()[v1alpha1.AnnotationAdditionalFrom] != "" || len(r.Index.Additional(name)) > 0
}

// ownersOf returns the present and the last owner of an address. At the start it is asked for all.
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

// wakeAskers wakes the Services that ask for addresses whenever policies or ranges have changed.
func (r *Reconciler) wakeAskers(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	r.Policies.Subscribe(func(_, _ *steering.Compiled) {
		r.asks.Range(func(name, _ any) bool {
			queue.Add(reconcile.Request{NamespacedName: name.(types.NamespacedName)})
			return true
		})
	})
	return nil
}

// waitingIn returns the Services of a namespace that lack an address: policies may select it now.
func (r *Reconciler) waitingIn(_ context.Context, namespace client.Object) (out []reconcile.Request) {
	r.waiting.Range(func(key, _ any) bool {
		if name := key.(types.NamespacedName); name.Namespace == namespace.GetName() {
			out = append(out, reconcile.Request{NamespacedName: name})
		}
		return true
	})
	return out
}

// Reconcile decides by the cache. If there is work, it decides anew by the API server, and acts.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	if !r.Policies.Synced() {
		return reconcile.Result{RequeueAfter: confirmFor}, nil
	}
	in, err := r.gather(ctx, r.Client, request.NamespacedName)
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("reading what has to do with Service %s: %w", request, err)
	}
	d := decide(in)
	if d.idle() {
		r.waiting.Delete(in.name)
		return reconcile.Result{}, nil
	}
	if pause := cmp.Or(r.pause(in), r.spent(in, d)); pause > 0 {
		return reconcile.Result{RequeueAfter: pause}, nil
	}
	if in, err = r.gather(ctx, r.Live, request.NamespacedName); err != nil {
		return reconcile.Result{}, fmt.Errorf("reading Service %s from the API server: %w", request, err)
	}
	return refusal.Wait(r.act(ctx, in, decide(in)))
}

// pause returns how long a Service that waits for room has to wait on, without asking the API
// server. Zero: something has changed, there is room, or it has another reason to wait.
func (r *Reconciler) pause(in inputs) time.Duration {
	known, ok := r.waiting.Load(in.name)
	if !ok || in.service == nil {
		return 0
	}
	w := known.(*wait)
	roomy := func(tiers []*allocator.Tier) bool { return !r.Index.Full(tiers) }
	if len(w.full) == 0 || w.version != in.service.version || w.policies != r.Policies.Current() || slices.ContainsFunc(w.full, roomy) {
		return 0
	}
	return w.pause(in.now)
}

// spent returns how long a Service waits because its namespace was given so many addresses of late.
// Meanwhile the API server is not asked. A mere release is never held back.
func (r *Reconciler) spent(in inputs, d decision) time.Duration {
	if len(d.draw)+len(d.complaints) == 0 || r.limitsOf(in.name.Namespace).draws.TokensAt(in.now) >= 1 {
		return 0
	}
	return r.waitOf(in).pause(in.now)
}

// pause is as long again as the Service has waited until now.
func (w *wait) pause(now time.Time) time.Duration {
	return min(max(now.Sub(w.since), confirmFor), longestPause)
}

// act carries a decision out as far as it can, tells what is lacking, and says when to look again:
// once to tell it, and for room.
func (r *Reconciler) act(ctx context.Context, in inputs, d decision) (reconcile.Result, error) {
	policies := r.Policies.Current()
	released := r.release(ctx, d.release)
	short, err := r.fill(ctx, in, d.draw)
	if err := errors.Join(released, err); err != nil {
		return reconcile.Result{}, fmt.Errorf("additional addresses of Service %s: %w", in.name, err)
	}
	complaints := slices.Clone(d.complaints)
	for _, at := range short {
		complaints = append(complaints, full(at))
	}
	if len(complaints) == 0 {
		r.waiting.Delete(in.name)
		return reconcile.Result{}, nil
	}
	w := r.waitOf(in)
	w.version, w.policies, w.full = in.service.version, policies, nil
	if waited := in.now.Sub(w.since); waited < confirmFor {
		return reconcile.Result{RequeueAfter: confirmFor - waited}, nil
	}
	r.tell(in, w, complaints)
	if len(short) == 0 {
		return reconcile.Result{}, nil
	}
	for _, at := range short {
		w.full = append(w.full, in.offers[at].tiers)
	}
	return reconcile.Result{RequeueAfter: w.pause(in.now)}, nil
}

// waitOf returns what is known of a Service that lacks an address, as of now if that is nothing.
func (r *Reconciler) waitOf(in inputs) *wait {
	if known, ok := r.waiting.Load(in.name); ok && known.(*wait).service == in.service.uid {
		return known.(*wait)
	}
	w := &wait{service: in.service.uid, since: in.now}
	r.waiting.Store(in.name, w)
	return w
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
	in.service = &service{
		uid: s.UID, version: s.ResourceVersion, created: s.CreationTimestamp.Time, deleting: !s.DeletionTimestamp.IsZero(), asks: steering.AdditionalRequestOf(s),
	}
	r.asks.Store(name, nil) // before the ranges are read, so that no change falls between
	if len(in.service.asks.From) == 0 {
		r.asks.Delete(name)
	}
	return in, r.addOffers(ctx, &in, s)
}

// addOffers enters an offer for each slot that the Service asks for, with tiers to draw from if the
// slot is empty. Policies select by labels, which the cache does not keep of Services: by the cache
// alone a slot may seem refused, but never filled.
func (r *Reconciler) addOffers(ctx context.Context, in *inputs, s *corev1.Service) error {
	for _, name := range in.service.asks.From {
		cidr, err := objects.Get(ctx, r.Client, types.NamespacedName{Name: name}, &networkingv1.ServiceCIDR{})
		if err != nil {
			return err
		}
		for _, f := range in.service.asks.Families {
			in.offers[slot{name, f}] = newOffer(cidr, f)
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
		if _, has := filled[at]; has {
			continue
		}
		tiers, refusal := r.Policies.Current().Additional(who, at.serviceCIDR, at.family)
		o.tiers = tiers
		if refusal != nil {
			o.refusal = refusal.Message
		}
		in.offers[at] = o
	}
	return nil
}

// newOffer is what a ServiceCIDR, nil for none, has of one family.
func newOffer(cidr *networkingv1.ServiceCIDR, f allocator.Family) offer {
	if cidr == nil {
		return offer{}
	}
	c := addressindex.NewServiceCIDR(cidr)
	ranges := slices.DeleteFunc(slices.Clone(c.Ranges), func(rng allocator.Range) bool { return rng.Family() != f })
	return offer{exists: true, deleting: c.Terminating, ready: c.Ready, ranges: ranges}
}
