package policy

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/internal/addressindex"
	"github.com/clusterip-operator/clusterip-operator/internal/conditions"
	"github.com/clusterip-operator/clusterip-operator/internal/loop"
	"github.com/clusterip-operator/clusterip-operator/internal/objects"
	"github.com/clusterip-operator/clusterip-operator/internal/steering"
	"github.com/clusterip-operator/clusterip-operator/internal/wording"
)

const (
	// every is how often a policy is looked at and written at most: a burst is one look.
	every = 2 * time.Second
	// countsEvery is how often a policy is written at most because of counts that moved: each write
	// goes to etcd and to every replica. What users wait for, a range that is full or has room again,
	// is not among these counts.
	countsEvery = 30 * time.Second
	// uncompiled is when to look again at a policy that is not compiled yet; its change tells, too.
	uncompiled = 500 * time.Millisecond
	// workers write statuses at a time. An API server takes longer for a status than for a policy, so
	// they begin when no more policies come.
	workers = 4
)

// Reconciler writes the status of one ServiceCIDRPolicy at a time. All its fields are required.
type Reconciler struct {
	loop.Cluster
	Policies *steering.Cache

	turns sync.Map // name of a policy -> *turn
}

// turn is when a policy was last looked at, and last written, zero before the first time. The queue
// lets no other worker at the policy meanwhile.
type turn struct{ looked, wrote time.Time }

// SetupWithManager starts the controller with mgr.
func (r *Reconciler) SetupWithManager(mgr manager.Manager) error {
	name := func(_ context.Context, p *v1alpha1.ServiceCIDRPolicy) []string { return []string{p.Name} }
	return loop.Setup(mgr, loop.Options{Name: "policystatus", Workers: workers, Retry: 500 * time.Millisecond, LongestRetry: time.Minute}, r,
		source.TypedKind(mgr.GetCache(), &v1alpha1.ServiceCIDRPolicy{}, handler.TypedEnqueueRequestsFromMapFunc(name)),
		steering.NewChanges(r.Policies, r.changed()),
		addressindex.Map(r.Index.RangeUsage(every), r.users), addressindex.Map(r.Index.Addresses(), r.reserver))
}

// changed returns a function that tells which policies have changed since its last call.
func (r *Reconciler) changed() func() []string {
	seen := steering.Compile(steering.Inputs{})
	return func() []string {
		var out []string
		now := r.Policies.Current()
		for was, p := range steering.Changed(seen, now) {
			if p != nil && !same(was, p) {
				out = append(out, p.Name)
			}
		}
		seen = now
		return out
	}
}

// same reports whether a policy has the same status as before, as policies and ranges decide it.
func same(before, now *steering.Policy) bool {
	return before != nil && before.UID == now.UID && before.Generation == now.Generation &&
		before.Standing == now.Standing && before.FollowedGeneration == now.FollowedGeneration &&
		slices.Equal(before.Ranges, now.Ranges) && slices.Equal(before.Reservations, now.Reservations) &&
		slices.Equal(before.Invalid, now.Invalid) && slices.Equal(before.Lost, now.Lost) && slices.Equal(before.Conflicts, now.Conflicts) &&
		slices.Equal(before.Missing, now.Missing) && slices.Equal(before.Unready, now.Unready) && slices.Equal(before.Deleting, now.Deleting)
}

// users are the policies with ranges of a ServiceCIDR. The index itself tells of overlapping ones.
func (r *Reconciler) users(cidr string) (out []string) {
	for _, p := range r.Policies.Current().Users(cidr) {
		out = append(out, p.Name)
	}
	return out
}

// reserver is the policy that reserves an address.
func (r *Reconciler) reserver(a netip.Addr) []string {
	if held, ok := r.Policies.Current().Reservation(a); ok {
		return []string{held.Policy}
	}
	return nil
}

// Reconcile compares the status of a policy with what it should say, and applies that if needed.
func (r *Reconciler) Reconcile(ctx context.Context, name string) (reconcile.Result, error) {
	known, _ := r.turns.LoadOrStore(name, &turn{})
	last, now := known.(*turn), r.Clock.Now()
	if left := last.looked.Add(every).Sub(now); left > 0 {
		return reconcile.Result{RequeueAfter: left}, nil
	}
	if wait := r.Policies.Changing(); wait > 0 {
		return reconcile.Result{RequeueAfter: wait}, nil
	}
	o := &v1alpha1.ServiceCIDRPolicy{}
	if err := r.Client.Get(ctx, client.ObjectKey{Name: name}, o); err != nil {
		r.turns.Delete(name)
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	in, ok := r.gather(o)
	if !ok {
		return reconcile.Result{RequeueAfter: uncompiled}, nil
	}
	last.looked = now
	if err := r.nameHolders(ctx, &in); err != nil {
		return reconcile.Result{}, err
	}
	switch again, err := r.publish(ctx, o, status(in), last); {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		// Deleted, or created anew, since the cache was told. It will be.
		return reconcile.Result{RequeueAfter: every}, nil
	case err != nil:
		return reconcile.Result{}, fmt.Errorf("writing the status of ServiceCIDRPolicy %s: %w", name, err)
	default:
		return reconcile.Result{RequeueAfter: again}, nil
	}
}

// eventReasons are the reasons of the events that announce a condition which turned bad.
var eventReasons = map[string]string{
	v1alpha1.PolicyAccepted:    "ServiceCIDRPolicyInvalid",
	v1alpha1.PolicyConflicting: "ServiceCIDRPolicyConflicting",
	v1alpha1.PolicyProgrammed:  "ServiceCIDRPolicyNotProgrammed",
}

// publish applies the status if it says something new, and records events of conditions that turned
// bad. What can wait is put off: then it returns when to look again.
func (r *Reconciler) publish(
	ctx context.Context, o *v1alpha1.ServiceCIDRPolicy, want v1alpha1.ServiceCIDRPolicyStatus, last *turn,
) (again time.Duration, err error) {
	now := r.Clock.Now()
	want.Conditions = conditions.Dated(o.Status.Conditions, want.Conditions, now)
	if write, wait := due(o.Status, want, now.Sub(last.wrote)); !write {
		return wait, nil
	}
	want.Refusals = nil // they stay the admission replicas'
	if err := objects.ApplyStatus(ctx, r.Client, o, &want, v1alpha1.ManagerPolicy); err != nil {
		return 0, err
	}
	last.wrote = now
	for _, c := range turnedBad(o.Status.Conditions, want.Conditions) {
		r.Events.Eventf(o, nil, corev1.EventTypeWarning, eventReasons[c.Type], "Program", "%s", wording.Cut(c.Message, wording.NoteLimit))
	}
	return 0, nil
}
