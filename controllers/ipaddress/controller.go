package ipaddress

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/clusterip-operator/clusterip-operator/internal/addressindex"
	"github.com/clusterip-operator/clusterip-operator/internal/drift"
	"github.com/clusterip-operator/clusterip-operator/internal/loop"
	"github.com/clusterip-operator/clusterip-operator/internal/metrics"
	"github.com/clusterip-operator/clusterip-operator/internal/objects"
	"github.com/clusterip-operator/clusterip-operator/internal/relation"
	"github.com/clusterip-operator/clusterip-operator/internal/upstream"
)

// workers repair at the same time. A repair is two requests that wait for etcd, which batches.
const workers = 16

// eventsASecond bounds the events of a mass repair. client-go sends each as soon as it can: a
// thousand would take the API server's time from the repairs that they tell of.
const eventsASecond = 50

// Reconciler audits and repairs addresses one by one. All exported fields but Tracker are required.
type Reconciler struct {
	loop.Cluster
	// Tracker remembers unconfirmed drift; its zero value is ready.
	Tracker drift.Tracker[netip.Addr]
	// Bitmap: the API server allocates from the bitmap, so IPAddresses are ours to write.
	Bitmap bool

	eventPace *rate.Limiter
	// restored are the UIDs of IPAddresses that were missing and were written, until that is reported:
	// for relation.Grace at most, and nothing where SetupWithManager was not called.
	restored *cache.Expiring
}

// SetupWithManager starts the controller with mgr.
func (r *Reconciler) SetupWithManager(mgr manager.Manager) error {
	r.eventPace, r.restored = rate.NewLimiter(eventsASecond, eventsASecond), cache.NewExpiring()
	return loop.Setup(mgr, loop.Options{Name: "ipaddress", Workers: workers, Retry: 100 * time.Millisecond, LongestRetry: time.Minute}, r,
		r.Index.Addresses(), r.Index.Covers())
}

// Reconcile decides by the cache. When something is wrong for long enough, it decides by the API
// server, and only when that agrees it repairs and reports.
func (r *Reconciler) Reconcile(ctx context.Context, a netip.Addr) (reconcile.Result, error) {
	in, err := r.gather(ctx, a, r.Client, r.Client)
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("reading what has to do with %s: %w", a, err)
	}
	d := decide(in)
	if d.drift == drift.None && d.do == leave {
		r.Tracker.Clear(a)
		return reconcile.Result{RequeueAfter: d.again}, nil
	}
	if left := r.Tracker.Suspect(a, d.drift, in.now, d.confirm); left > 0 {
		return reconcile.Result{RequeueAfter: left}, nil
	}
	return r.confirm(ctx, a, d)
}

// confirm asks the API server about a suspicion that has lasted, and acts on it. A creation does
// not read the IPAddress: a name that exists is refused. Nor does bitmap mode's daily work read
// Services: the IPAddress of one that is gone is removed when its end is seen.
func (r *Reconciler) confirm(ctx context.Context, a netip.Addr, suspected decision) (reconcile.Result, error) {
	addresses, services := r.Live, r.Live
	if suspected.do == create || suspected.do == report {
		addresses = r.Client
		if suspected.drift == drift.None {
			services = r.Client
		}
	}
	in, err := r.gather(ctx, a, addresses, services)
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("reading what has to do with %s from the API server: %w", a, err)
	}
	d := decide(in)
	if d.drift != suspected.drift || d.do != suspected.do {
		// The watch lags behind. Its event will wake us; decide once more, should it be coalesced.
		r.Tracker.Clear(a)
		return reconcile.Result{RequeueAfter: 2 * time.Second}, nil
	}
	return r.repair(ctx, in, d)
}

// repair writes, counts and reports, in this order.
func (r *Reconciler) repair(ctx context.Context, in inputs, d decision) (reconcile.Result, error) {
	done, err := r.apply(ctx, in, d.do)
	// What exists already was never missing: after an API server restart the watch of IPAddresses may
	// come back seconds after that of Services.
	if d.drift != drift.None && (done && d.do != create || err != nil) && r.Tracker.Believe(in.address) {
		metrics.DriftDetected.WithLabelValues(string(d.drift)).Inc()
	}
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("repairing %s: %w", in.address, err)
	}
	if d.drift == drift.None || !done {
		r.Tracker.Clear(in.address)
		return reconcile.Result{}, nil
	}
	if d.do == create {
		r.Tracker.Clear(in.address)
		return reconcile.Result{RequeueAfter: confirmRestored}, nil // reported when it has proven right
	}
	r.announce(in, d)
	if d.do != leave {
		metrics.DriftRepaired.WithLabelValues(string(d.drift)).Inc()
		log.FromContext(ctx).Info("Repaired an address", "address", in.address, "drift", d.drift, "note", d.note)
	}
	if d.do == report { // no event of the watch will come and find that nothing is wrong any more
		return reconcile.Result{RequeueAfter: time.Millisecond}, nil
	}
	return reconcile.Result{}, nil
}

// gather reads the IPAddress of an address and the Services that have to do with it.
func (r *Reconciler) gather(ctx context.Context, a netip.Addr, addresses, services client.Reader) (inputs, error) {
	in := inputs{now: r.Clock.Now(), address: a, offered: len(r.Index.Covering(a)) > 0, bitmap: r.Bitmap}
	ip, err := objects.Get(ctx, addresses, types.NamespacedName{Name: a.String()}, &networkingv1.IPAddress{})
	if err != nil {
		return in, err
	}
	names := r.Index.Claims(a)
	var parent types.NamespacedName
	if ip != nil {
		in.object, in.restored = ip, r.wasRestored(ip)
		if parent = upstream.Service(ip); parent.Name != "" && !slices.Contains(names, parent) {
			names = append(names, parent)
		}
	}
	for _, name := range names {
		s, err := objects.Get(ctx, services, name, &corev1.Service{})
		if err != nil {
			return in, err
		}
		if s != nil && slices.Contains(addressindex.ClusterIPs(s), a) {
			in.claims = append(in.claims, s)
		}
		if s != nil && name == parent {
			in.parent = s
		}
	}
	in.claims, in.misspelt = ranked(in.claims, a, r.Bitmap)
	return in, nil
}

// ranked puts the rightful owner first. If no Service spells the address right it has no owner: the
// API server keeps no IPAddress for it. One that allocates from the bitmap ignores IPAddresses.
func ranked(all []*corev1.Service, a netip.Addr, bitmap bool) (claims, misspelt []*corev1.Service) {
	relation.Rank(all, func(s *corev1.Service) relation.Claim {
		return relation.Claim{Service: key(s), Created: s.CreationTimestamp.Time, Misspelt: addressindex.Misspells(s.Spec.ClusterIPs, a)}
	})
	if len(all) > 0 && !bitmap && addressindex.Misspells(all[0].Spec.ClusterIPs, a) {
		return nil, all
	}
	return all, nil
}

func (r *Reconciler) wasRestored(ip *networkingv1.IPAddress) bool {
	if r.restored == nil {
		return false
	}
	_, ok := r.restored.Get(ip.UID)
	return ok
}
