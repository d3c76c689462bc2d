package enforcement

import (
	"context"
	"maps"
	"math"
	"net/netip"
	"time"

	"golang.org/x/time/rate"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/clusterip-operator/clusterip-operator/internal/addressindex"
	"github.com/clusterip-operator/clusterip-operator/internal/loop"
	"github.com/clusterip-operator/clusterip-operator/internal/steering"
)

// Request is what to look at: an address, a policy, or, if zero, what the API server is given.
type Request struct {
	Address netip.Addr
	Policy  string
}

// Reconciler gives the API server what it needs to enforce policies, and tells which Services have
// addresses that are kept for other Services. All exported fields are required.
type Reconciler struct {
	loop.Cluster
	Policies *steering.Cache
	// Namespace is that of the operator, where the ConfigMap is.
	Namespace string

	// objects follows the three objects by their names.
	objects   client.Reader
	enforcing enforcing
	// wanted is what the API server is to be given; only enforce uses it.
	wanted     wanted
	violations violations
	// writes bounds writes of conditions, events those on Services: condition and metric count all.
	writes, events *rate.Limiter
	queue          workqueue.TypedRateLimitingInterface[Request]
}

const (
	// reportDelay is how long reports of a policy are gathered: each is a write.
	reportDelay = 500 * time.Millisecond
	// writesASecond bounds the writes of the conditions of all policies.
	writesASecond               = 100
	eventsASecond, eventsAtOnce = 5, 50
)

// SetupWithManager starts the controller with mgr.
func (r *Reconciler) SetupWithManager(mgr manager.Manager) error {
	namespaces := handler.TypedFuncs[*corev1.Namespace, Request]{UpdateFunc: r.relabelled}
	r.writes, r.events = rate.NewLimiter(writesASecond, writesASecond), rate.NewLimiter(eventsASecond, eventsAtOnce)
	keepQueue := source.TypedFunc[Request](func(_ context.Context, queue workqueue.TypedRateLimitingInterface[Request]) error {
		r.queue = queue
		return nil
	})
	objects, err := watch(mgr, r.Namespace)
	if err != nil {
		return err
	}
	r.objects = objects
	return loop.Setup(mgr, loop.Options{Name: "enforcement", Workers: 2, Retry: 500 * time.Millisecond, LongestRetry: time.Minute}, r,
		keepQueue, r.changes(), addressindex.Map(r.Index.Addresses(), r.audits),
		source.TypedKind(mgr.GetCache(), &corev1.Namespace{}, namespaces),
		wakes(objects, &corev1.ConfigMap{}), wakes(objects, &admissionregistrationv1.ValidatingAdmissionPolicy{}),
		wakes(objects, &admissionregistrationv1.ValidatingAdmissionPolicyBinding{}))
}

// wakes is a source of a look at the objects when one of them changes.
func wakes[T client.Object](objects cache.Cache, kind T) source.TypedSyncingSource[Request] {
	return source.TypedKind(objects, kind, handler.TypedEnqueueRequestsFromMapFunc(func(context.Context, T) []Request { return []Request{{}} }))
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

// reportSoon has the conditions of policies looked at.
func (r *Reconciler) reportSoon(policies ...string) {
	for _, name := range policies {
		r.queue.AddAfter(Request{Policy: name}, reportDelay)
	}
}

// audits returns what to look at when an address changes: nothing if no policy has it exclusively.
func (r *Reconciler) audits(a netip.Addr) []Request {
	if r.Policies.Current().Owner(a) == nil {
		return nil
	}
	return []Request{{Address: a}}
}

// relabelled asks for a look at the Services' addresses of a namespace whose labels have changed.
func (r *Reconciler) relabelled(
	ctx context.Context, e event.TypedUpdateEvent[*corev1.Namespace], queue workqueue.TypedRateLimitingInterface[Request],
) {
	list := &corev1.ServiceList{}
	if maps.Equal(e.ObjectOld.Labels, e.ObjectNew.Labels) || r.Client.List(ctx, list, client.InNamespace(e.ObjectNew.Name)) != nil {
		return // an error says that the cache is not there any more
	}
	for i := range list.Items {
		for _, a := range addressindex.ClusterIPs(&list.Items[i]) {
			for _, request := range r.audits(a) {
				queue.Add(request)
			}
		}
	}
}

// changes is a source of what to look at after a change of policies or ranges: what the API server
// is given, each changed policy, and the used addresses of the ranges that it had or has.
func (r *Reconciler) changes() *steering.Changes[Request] {
	seen := steering.Compile(steering.Inputs{})
	return steering.NewChanges(r.Policies, func() []Request {
		now := r.Policies.Current()
		requests := between(seen, now, func(p netip.Prefix) []netip.Addr { return r.Index.Used(steering.SpanOf(p), math.MaxInt) })
		seen = now
		return requests
	})
}

// between returns what differs between compilations. used returns the used addresses of a range.
func between(before, after *steering.Compiled, used func(netip.Prefix) []netip.Addr) []Request {
	out := []Request{{}}
	touched := sets.New[netip.Prefix]()
	for was, is := range steering.Changed(before, after) {
		if same(was, is) {
			continue
		}
		for _, p := range []*steering.Policy{was, is} {
			if p != nil {
				out = append(out, Request{Policy: p.Name})
				touched.Insert(p.Claimed...)
			}
		}
	}
	for prefix := range touched {
		for _, a := range used(prefix) {
			out = append(out, Request{Address: a})
		}
	}
	return out
}
