package service

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/clusterip-operator/clusterip-operator/internal/addressindex"
	"github.com/clusterip-operator/clusterip-operator/internal/drift"
	"github.com/clusterip-operator/clusterip-operator/internal/loop"
	"github.com/clusterip-operator/clusterip-operator/internal/metrics"
	"github.com/clusterip-operator/clusterip-operator/internal/upstream"
)

// Reconciler audits the cluster IPs of one Service at a time. All fields but Tracker are required.
type Reconciler struct {
	loop.Cluster
	// Tracker remembers unconfirmed complaints; its zero value is ready.
	Tracker drift.Tracker[types.NamespacedName]

	mu sync.Mutex
	// listed are the API server's ServiceCIDRs at listedAt. A slice once returned is not changed.
	listed   []addressindex.ServiceCIDR
	listedAt time.Time
}

// SetupWithManager starts the controller with mgr.
func (r *Reconciler) SetupWithManager(mgr manager.Manager) error {
	return builder.ControllerManagedBy(mgr).
		Named("service").
		For(&corev1.Service{}).
		WatchesRawSource(addressindex.Map(r.Index.Covers(), r.claims)).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: 2,
			RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](time.Second, 5*time.Minute),
		}).
		Complete(r)
}

// claims are the Services that claim an address, which began or ceased to be offered.
func (r *Reconciler) claims(a netip.Addr) (out []reconcile.Request) {
	for _, name := range r.Index.Claims(a) {
		out = append(out, reconcile.Request{NamespacedName: name})
	}
	return out
}

// Reconcile reports a complaint once, when it has lasted and the API server's copy shows it too.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	key, s := request.NamespacedName, &corev1.Service{}
	if err := r.Client.Get(ctx, key, s); client.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, fmt.Errorf("reading Service %s: %w", key, err)
	}
	findings := decide(s, r.offered)
	if len(findings) == 0 {
		r.Tracker.Clear(key)
		return reconcile.Result{}, nil
	}
	if left := r.Tracker.Suspect(key, worst(findings), r.Clock.Now(), confirmFor); left > 0 {
		return reconcile.Result{RequeueAfter: left}, nil
	}
	offered, err := r.liveOffer(ctx)
	if err != nil {
		return reconcile.Result{}, err
	}
	if len(decide(s, offered)) == 0 { // the address index is behind, and nothing wakes us if the range goes before the address index knows it
		r.Tracker.Clear(key)
		return reconcile.Result{RequeueAfter: confirmFor}, nil
	}
	live := &corev1.Service{} // stays empty, so that nothing is found, if it is gone
	if err := r.Live.Get(ctx, key, live); client.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, fmt.Errorf("reading Service %s from the API server: %w", key, err)
	}
	r.report(key, live, decide(live, offered))
	return reconcile.Result{}, nil
}

func (r *Reconciler) offered(a netip.Addr) bool { return len(r.Index.Covering(a)) > 0 }

func (r *Reconciler) report(key types.NamespacedName, s *corev1.Service, findings []finding) {
	if len(findings) == 0 {
		r.Tracker.Clear(key)
		return
	}
	if r.Tracker.Believe(key) {
		metrics.DriftDetected.WithLabelValues(string(worst(findings))).Inc()
	}
	if !r.Tracker.Report(key, fmt.Sprint(s.UID, findings)) {
		return
	}
	for _, f := range findings {
		reason, action, note := f.event()
		r.Events.Eventf(s, upstream.Named(f.text), corev1.EventTypeWarning, reason, action, "%s", note)
	}
}

// liveOffer tells decide what the index or the API server offers: after an outage the watch of
// ServiceCIDRs may be half a minute behind, for which no Service in a new range is to be reported.
//
// It lists ServiceCIDRs once for all Services suspected at a time: thousands when a range went. A
// finding has lasted confirmFor, and a range is older than its Services: that listing has it.
func (r *Reconciler) liveOffer(ctx context.Context) (func(netip.Addr) bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now := r.Clock.Now(); r.listedAt.IsZero() || now.Sub(r.listedAt) > confirmFor {
		list := &networkingv1.ServiceCIDRList{}
		if err := r.Live.List(ctx, list); err != nil {
			return nil, fmt.Errorf("listing ServiceCIDRs: %w", err)
		}
		r.listed, r.listedAt = nil, now
		for i := range list.Items {
			r.listed = append(r.listed, addressindex.NewServiceCIDR(&list.Items[i]))
		}
	}
	cidrs := r.listed
	return func(a netip.Addr) bool {
		return r.offered(a) || slices.ContainsFunc(cidrs, func(c addressindex.ServiceCIDR) bool { return c.Contains(a) })
	}, nil
}
