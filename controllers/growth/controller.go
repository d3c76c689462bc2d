package growth

import (
	"context"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/internal/addressindex"
	"github.com/clusterip-operator/clusterip-operator/internal/loop"
	"github.com/clusterip-operator/clusterip-operator/internal/steering"
)

const (
	// debounce holds a policy back after a change of its use, so that a burst of allocations is one
	// look. It is short, for a range takes a second and a half until addresses are drawn from it.
	debounce = 200 * time.Millisecond
	// resync is when to look again at what nothing tells of: forecasts, and networks of nodes.
	resync = time.Minute
	// uncompiled is when to look again at a policy newer than the compiled ones, which wake us, too.
	uncompiled = 500 * time.Millisecond
)

// Reconciler creates ServiceCIDRs, policy by policy. All exported fields but Networks are required.
type Reconciler struct {
	loop.Cluster
	Policies *steering.Cache
	// Networks are declared by the operator's configuration as used by something else.
	Networks []addressindex.Network
	// Unsteered: no webhook draws, and the API server allocates no address that cools down.
	Unsteered bool
}

// SetupWithManager starts the controller with mgr. One worker: two policies that want the same
// addresses, in blocks of different sizes, are asked one after the other.
func (r *Reconciler) SetupWithManager(mgr manager.Manager) error {
	return loop.Setup(mgr, loop.Options{Name: "growth", Workers: 1, Retry: 500 * time.Millisecond, LongestRetry: time.Minute}, r,
		source.TypedKind(mgr.GetCache(), &v1alpha1.ServiceCIDRPolicy{}, handler.TypedEnqueueRequestsFromMapFunc(grows)),
		// Which ServiceCIDRs there are is an input of the compiled policies. Counts and conditions of one
		// concern the policies that draw from it.
		steering.NewChanges(r.Policies, r.changed()),
		addressindex.Map(r.Index.Ranges(), r.users),
		addressindex.Map(r.Index.RangeUsage(debounce), r.users))
}

// grows is a policy that grows, or did: then its conditions go. Its own status wakes it, too,
// for a cache that lags behind may have hidden what was to be written.
func grows(_ context.Context, o *v1alpha1.ServiceCIDRPolicy) []string {
	if o.Spec.Growth == nil && len(growthConditions(o.Status.Conditions)) == 0 {
		return nil
	}
	return []string{o.Name}
}

// users are the policies with growth that draw from a ServiceCIDR.
func (r *Reconciler) users(cidr string) (names []string) {
	for _, p := range r.Policies.Current().Users(cidr) {
		if p.Grows {
			names = append(names, p.Name)
		}
	}
	return names
}

// Reconcile decides by the cache; if that needs a range, by the API server, and creates it.
func (r *Reconciler) Reconcile(ctx context.Context, name string) (reconcile.Result, error) {
	o := &v1alpha1.ServiceCIDRPolicy{}
	if err := r.Client.Get(ctx, client.ObjectKey{Name: name}, o); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if !follows(o) {
		return reconcile.Result{}, r.publish(ctx, o, nil)
	}
	policies := r.Policies.Current()
	p := policies.Policy(name)
	if p == nil || p.UID != o.UID || p.Generation != o.Generation {
		return reconcile.Result{RequeueAfter: uncompiled}, nil
	}
	in, err := r.gather(ctx, r.cached(o, policies), o, policies)
	if err != nil {
		return reconcile.Result{}, err
	}
	d := decide(in)
	if len(d.create) > 0 {
		if in, err = r.gather(ctx, r.live, o, policies); err != nil {
			return reconcile.Result{}, err
		}
		d = decide(in)
	}
	if err := r.apply(ctx, o, in, d); err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: resync}, nil
}
