package reservation

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/internal/addressindex"
	"github.com/clusterip-operator/clusterip-operator/internal/loop"
	"github.com/clusterip-operator/clusterip-operator/internal/objects"
	"github.com/clusterip-operator/clusterip-operator/internal/steering"
	"github.com/clusterip-operator/clusterip-operator/internal/upstream"
)

// Reconciler writes the IPAddresses of reservations and of cooling addresses, one address at a
// time. All exported fields are required. It is safe for concurrent use about different addresses.
type Reconciler struct {
	// Client reads from the cache and writes.
	Client   client.Client
	Index    *addressindex.Index
	Policies *steering.Cache
	Clock    clock.PassiveClock
	// APIVersion under which IPAddresses are served.
	APIVersion string

	moved moves
}

// SetupWithManager starts the controller with mgr.
func (r *Reconciler) SetupWithManager(mgr manager.Manager) error {
	changes := steering.NewChanges(r.Policies, r.changed())
	// A range that comes or goes changes what is wanted in it, whether anything is used there or not.
	ranges := addressindex.Map(r.Index.Ranges(), func(name string) []netip.Addr {
		if r.moved.note(name, r.Index.ServiceCIDR) {
			changes.Touch()
		}
		return nil
	})
	return loop.Setup(mgr, loop.Options{Name: "reservation", Workers: 8, Retry: 100 * time.Millisecond, LongestRetry: time.Minute}, r,
		r.Index.Addresses(), changes, ranges)
}

// Reconcile gathers the inputs, lets decide decide, and applies the decision. As long as the watch
// does not show our last write at the address, there is nothing to decide.
func (r *Reconciler) Reconcile(ctx context.Context, a netip.Addr) (reconcile.Result, error) {
	if left := r.Index.Writing(a); left > 0 {
		return reconcile.Result{RequeueAfter: left}, nil
	}
	in, err := r.gather(ctx, a)
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("reading what has to do with %s: %w", a, err)
	}
	return r.apply(ctx, in, decide(in))
}

// gather reads the IPAddress from the cache, all else from the address index and the policies.
func (r *Reconciler) gather(ctx context.Context, a netip.Addr) (inputs, error) {
	in := inputs{now: r.Clock.Now(), address: a, claimed: len(r.Index.Claims(a)) > 0}
	covering := r.Index.Covering(a)
	in.covered = len(covering) > 0
	in.offered = slices.ContainsFunc(covering, func(c addressindex.ServiceCIDR) bool { return !c.Terminating })
	policies := r.Policies.Current()
	if reservation, ok := policies.Reservation(a); ok {
		in.reservation = &reservation
	}
	in.coolDown, in.cooler = policies.CoolDown(a)
	o, err := objects.Get(ctx, r.Client, types.NamespacedName{Name: a.String()}, &networkingv1.IPAddress{})
	in.object = o
	if freed, ok := r.Index.Cooling(a); ok {
		in.freed = &freed
	}
	if o != nil && upstream.HeldForNoService(o) && purpose(o) == v1alpha1.PurposeCooling { // what every replica sees, and the cache has it a moment before the address index
		freed := addressindex.ReadCoolDown(o.Annotations, o.CreationTimestamp.Time)
		freed.Surplus = in.freed != nil && in.freed.Surplus && in.freed.Released.Equal(freed.Released)
		in.freed = &freed
	}
	return in, err
}
