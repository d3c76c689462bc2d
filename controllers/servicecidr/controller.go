package servicecidr

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"net/netip"
	"strings"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/internal/addressindex"
	"github.com/clusterip-operator/clusterip-operator/internal/loop"
	"github.com/clusterip-operator/clusterip-operator/internal/metrics"
	"github.com/clusterip-operator/clusterip-operator/internal/refusal"
	"github.com/clusterip-operator/clusterip-operator/internal/steering"
	"github.com/clusterip-operator/clusterip-operator/internal/upstream"
)

// debounce holds a range back after a change of its use, so that a burst of allocations is one look
// and at most one write. Object changes are not held: without our finalizer it is unprotected.
const debounce = time.Second

// Reconciler keeps one ServiceCIDR at a time. All exported fields but Networks are required.
type Reconciler struct {
	loop.Cluster
	Limits Limits
	// Networks are declared by the operator's configuration as used by something else.
	Networks []addressindex.Network
	// APIVersion under which ServiceCIDRs are served.
	APIVersion string
	// Bitmap: the API server allocates from the bitmap.
	Bitmap bool
	// Refusals are the writes that the API server refuses to this process.
	Refusals *refusal.Board
	// Policies say which ranges are cordoned. Nil: none.
	Policies *steering.Cache
	// Unsteered: no webhook draws, and the API server allocates no address that cools down.
	Unsteered bool

	history history
	counted map[string]time.Time // when AnnotationUsage was written last, by name; there is one worker
}

// SetupWithManager starts the controller with mgr. One worker: the decision about two ranges that
// cover each other must not be made for both at once.
func (r *Reconciler) SetupWithManager(mgr manager.Manager) error {
	return loop.Setup(mgr, loop.Options{Name: "servicecidr", Workers: 1, Retry: 200 * time.Millisecond, LongestRetry: time.Minute}, r,
		append(r.cordons(), r.Index.Ranges(), r.Index.RangeUsage(debounce), source.TypedFunc[string](r.wakeDefault))...)
}

// cordons is a source of the ServiceCIDRs of which another range is cordoned than before.
func (r *Reconciler) cordons() []source.TypedSource[string] {
	if r.Policies == nil {
		return nil
	}
	before, seen := steering.Compile(steering.Inputs{}), map[string]string{}
	return []source.TypedSource[string]{steering.NewChanges(r.Policies, func() (names []string) {
		policies, now := r.Policies.Current(), map[string]string{}
		defer func() { before = policies }()
		if !steering.AnyChanged(before, policies, (*steering.Policy).Restricts) {
			return nil
		}
		for _, c := range r.Index.ServiceCIDRs() {
			for _, rg := range c.Ranges {
				if by := cordonedBy(policies, rg); by != "" {
					now[c.Name] += rg.String() + " " + by + ","
				}
			}
			if now[c.Name] != seen[c.Name] {
				names = append(names, c.Name)
			}
		}
		seen = now // without those that are gone
		return names
	})}
}

// cordonedBy names the policy that has a range cordoned, empty for none. policies may be nil.
func cordonedBy(policies *steering.Compiled, rg allocator.Range) string {
	if policies == nil {
		return ""
	}
	if by := policies.Cordoned(rg); by != nil {
		return by.Name
	}
	return ""
}

// wakeDefault wakes the default ServiceCIDR whenever other writes are refused than before.
func (r *Reconciler) wakeDefault(_ context.Context, queue workqueue.TypedRateLimitingInterface[string]) error {
	r.Refusals.Subscribe(func() { queue.Add(v1alpha1.DefaultServiceCIDR) })
	return nil
}

// Reconcile reads what has to do with the named ServiceCIDR, decides, and applies the decision.
func (r *Reconciler) Reconcile(ctx context.Context, name string) (reconcile.Result, error) {
	cidr := &networkingv1.ServiceCIDR{}
	if err := r.Client.Get(ctx, client.ObjectKey{Name: name}, cidr); err != nil {
		r.history.forget(name)
		delete(r.counted, name)
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
	pause, err := r.apply(ctx, cidr, in, d)
	switch {
	case apierrors.IsConflict(err):
		// Another writer came between our read and our write. That is no error: read again.
		return reconcile.Result{RequeueAfter: 100 * time.Millisecond}, nil
	case err != nil:
		return reconcile.Result{}, err
	}
	// After a step comes the next sample of the forecast; of a thousand ranges not of all together.
	return reconcile.Result{RequeueAfter: cmp.Or(d.again, pause, wait.Jitter(step, .2))}, nil
}

// apply carries the decision out. It returns after how long the counts are to be written.
func (r *Reconciler) apply(ctx context.Context, cidr *networkingv1.ServiceCIDR, in inputs, d decision) (wait time.Duration, err error) {
	if !d.keep {
		return 0, r.release(ctx, cidr)
	}
	if err := r.addFinalizer(ctx, cidr); err != nil {
		return 0, err
	}
	if in.unused && in.deleted.IsZero() {
		if err := r.withdrawReady(ctx, cidr); err != nil {
			return 0, err
		}
	}
	written, err := r.writeConditions(ctx, cidr, d.conditions)
	if err != nil {
		return 0, err
	}
	r.announce(cidr, in, written)
	return r.writeUsage(ctx, cidr, in.bands)
}

// gather reads what decide needs from the address index.
func (r *Reconciler) gather(ctx context.Context, cidr *networkingv1.ServiceCIDR) (inputs, error) {
	in := inputs{now: r.Clock.Now(), limits: r.Limits, cluster: cidr.Name == v1alpha1.DefaultServiceCIDR, refused: r.Refusals.Refused()}
	in.unused = r.Bitmap && in.cluster
	var prefixes []netip.Prefix
	var policies *steering.Compiled
	if r.Policies != nil {
		policies = r.Policies.Current()
	}
	c, _ := r.Index.ServiceCIDR(cidr.Name)
	for _, rg := range c.Ranges {
		prefixes = append(prefixes, rg.Prefix())
	}
	in.bands = uses(r.Index, c.Ranges, policies, r.Unsteered)
	for i, b := range in.bands {
		in.bands[i].perHour, in.bands[i].known = r.history.rate(bandKey{c.Name, b.cidr, b.band}, in.now, b.usage.Size-b.available())
	}
	in.overlaps = r.Index.Overlaps(prefixes, r.Networks)
	if cidr.DeletionTimestamp.IsZero() {
		return in, nil
	}
	in.deleted = cidr.DeletionTimestamp.Time
	var err error
	in.orphans, in.blockers, err = r.orphans(ctx, cidr.Name)
	return in, err
}

// orphans counts the addresses that would be left without a range, and names the first ones. Those
// in flight count, although not in use: a Service may be about to get one. They are gone in
// seconds, as nothing is drawn from a range being deleted. Cooling ones are not waited for.
func (r *Reconciler) orphans(ctx context.Context, name string) (count uint64, first []blocker, err error) {
	for _, span := range r.Index.Orphans(name) {
		usage := r.Index.Usage(span)
		count += usage.Size - usage.Free + usage.Assumed - usage.Cooling
		if len(first) == namesShown {
			continue
		}
		for _, a := range r.Index.Used(span, namesShown+int(min(usage.Cooling, math.MaxInt32))) {
			if len(first) == namesShown || r.Index.State(a) == allocator.Cooling {
				continue
			}
			owner, err := r.owner(ctx, a)
			if err != nil {
				return 0, nil, err
			}
			first = append(first, blocker{address: a, owner: owner})
		}
	}
	return count, first, nil
}

// owner says whose an address is: Services that hold it, or what its IPAddress is for or names.
func (r *Reconciler) owner(ctx context.Context, a netip.Addr) (string, error) {
	if claims := r.Index.Claims(a); len(claims) > 0 {
		names := make([]string, 0, len(claims))
		for _, c := range claims {
			names = append(names, "Service "+c.String())
		}
		return strings.Join(names, ", "), nil
	}
	if k, ok := r.Index.Owned(a); ok && k.Purpose == v1alpha1.PurposeAdditional {
		return "additional address of Service " + k.Service.String(), nil
	}
	ip := &networkingv1.IPAddress{}
	if err := r.Client.Get(ctx, client.ObjectKey{Name: a.String()}, ip); err != nil {
		return "IPAddress without a Service", client.IgnoreNotFound(err)
	}
	return upstream.Describe(ip), nil
}
