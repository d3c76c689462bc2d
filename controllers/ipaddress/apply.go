package ipaddress

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	networkingv1ac "k8s.io/client-go/applyconfigurations/networking/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/controllers/internal/metrics"
	"github.com/clusterip-operator/clusterip-operator/controllers/internal/upstream"
)

// apply carries out a verdict and reports whether it was we who did it. Every write is guarded by the version
// that was judged, or by the uniqueness of the name, so that a world that moved in between fails the write
// instead of being overwritten.
func (r *Reconciler) apply(ctx context.Context, w world, do action) (done bool, err error) {
	switch do {
	case leave:
		return true, nil
	case create:
		return r.create(ctx, w)
	case remove:
		return true, r.remove(ctx, w)
	case replace:
		// The parent is immutable, so there is a moment without an object. If somebody takes the address in
		// it, create finds the name taken and the next look sees a duplicate.
		if err := r.remove(ctx, w); err != nil {
			return false, err
		}
		return r.create(ctx, w)
	case relabel:
		return true, r.relabel(ctx, w)
	default:
		panic(fmt.Sprintf("unknown action %d", do))
	}
}

// create writes the IPAddress exactly as the API server's allocator would. A name that is taken is somebody
// else's success, or a finalizer's hold on the one before: the informer will tell, and the address is judged
// again.
func (r *Reconciler) create(ctx context.Context, w world) (done bool, err error) {
	err = timed("create", func() error {
		return r.Client.Create(ctx, upstream.NewIPAddress(w.address, w.owner().name), client.FieldOwner(v1alpha1.ManagerIPAddress))
	})
	switch {
	case apierrors.IsAlreadyExists(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("creating IPAddress %s for Service %s: %w", w.address, w.owner().name, err)
	}
	return true, nil
}

func (r *Reconciler) remove(ctx context.Context, w world) error {
	ip := &networkingv1.IPAddress{ObjectMeta: metav1.ObjectMeta{Name: w.address.String()}}
	err := timed("delete", func() error {
		return r.Client.Delete(ctx, ip, client.Preconditions{UID: &w.object.uid, ResourceVersion: &w.object.version})
	})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting IPAddress %s: %w", w.address, err)
	}
	return nil
}

// relabel is a server-side apply of the two labels alone: unlike deleting and creating, as upstream does, it
// leaves no moment in which the address is free.
func (r *Reconciler) relabel(ctx context.Context, w world) error {
	ip := networkingv1ac.IPAddress(w.address.String()).
		WithAPIVersion(r.APIVersion).
		WithUID(w.object.uid).
		WithResourceVersion(w.object.version).
		WithLabels(upstream.Labels(w.address))
	err := timed("label", func() error {
		return r.Client.Apply(ctx, ip, client.FieldOwner(v1alpha1.ManagerIPAddress), client.ForceOwnership)
	})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("labelling IPAddress %s: %w", w.address, err)
	}
	return nil
}

// timed runs one write and books its duration, or its failure.
func timed(operation string, write func() error) error {
	start := time.Now()
	err := write()
	if err != nil && !apierrors.IsAlreadyExists(err) && !apierrors.IsNotFound(err) {
		metrics.AllocationErrors.WithLabelValues(operation).Inc()
		return err
	}
	metrics.AllocationDuration.WithLabelValues(operation).Observe(time.Since(start).Seconds())
	return err
}

// announce sends the events of a verdict that was carried out: to the owner what was repaired, to the others
// that the address is not theirs. It is called after the write, so that no event speaks of what did not happen. Each
// repair is told; what cannot be repaired, and who has no right, only once.
//
// The IPAddress is the related object of every event: without it, client-go would take the events about two addresses of
// one Service for one, and drop what the second says.
func (r *Reconciler) announce(w world, v verdict) {
	label := fmt.Sprintf("[%s]: %s", upstream.Family(w.address), w.address)
	ip := &networkingv1.IPAddress{ObjectMeta: metav1.ObjectMeta{Name: w.address.String()}}
	switch owner := w.owner(); {
	case v.reason == "" || (v.do == leave && !r.Tracker.Report(w.address, v.reason+v.note)):
	case owner != nil:
		r.Events.Eventf(service(*owner), ip, corev1.EventTypeWarning, v.reason, "ClusterIPAllocation", "Cluster IP %s %s", label, v.note)
	default:
		ip.UID = w.object.uid
		r.Events.Eventf(ip, nil, corev1.EventTypeWarning, v.reason, "IPAddressAllocation", "IPAddress %s %s", label, v.note)
	}
	for _, loser := range v.losers {
		if r.Tracker.Report(w.address, "not "+string(loser.uid)) {
			r.Events.Eventf(service(loser), ip, corev1.EventTypeWarning, reasonAlreadyAllocated, "ClusterIPAllocation",
				"Cluster IP %s belongs to Service %s, which held it first; create this Service anew to give it an address of its own", label, w.owner().name)
		}
	}
}

// service is the reference that an event needs.
func service(c claim) *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: c.name.Namespace, Name: c.name.Name, UID: c.uid}}
}
