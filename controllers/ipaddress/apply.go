package ipaddress

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/internal/metrics"
	"github.com/clusterip-operator/clusterip-operator/internal/refusal"
	"github.com/clusterip-operator/clusterip-operator/internal/relation"
	"github.com/clusterip-operator/clusterip-operator/internal/upstream"
)

// apply carries out a decision and reports whether we did it. The version that was decided on, or
// the uniqueness of the name, guards each write: it fails if something changed in between.
func (r *Reconciler) apply(ctx context.Context, in inputs, do action) (done bool, err error) {
	switch do {
	case leave:
		return true, nil
	case report:
		r.restored.Delete(in.object.UID)
		return true, nil
	case create:
		return r.create(ctx, in)
	case remove:
		return true, r.remove(ctx, in)
	case replace:
		// The parent is immutable, so there is a moment without an object. If another Service gets the
		// address in it, create finds the name taken and the next decision is about a duplicate.
		if err := r.remove(ctx, in); err != nil {
			return false, err
		}
		return r.create(ctx, in)
	default:
		return true, r.relabel(ctx, in)
	}
}

// create writes the IPAddress exactly as the API server's allocator would. A taken name is another
// writer's success, or a finalizer's hold on the last object: the informer brings another decision.
func (r *Reconciler) create(ctx context.Context, in inputs) (done bool, err error) {
	ip := upstream.NewIPAddress(in.address, key(in.owner()))
	err = timed("create", func() error {
		return r.Client.Create(ctx, ip, client.FieldOwner(v1alpha1.ManagerIPAddress))
	})
	switch {
	case apierrors.IsAlreadyExists(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("creating IPAddress %s for Service %s: %w", in.address, key(in.owner()), err)
	}
	if r.restored != nil && in.object == nil && !in.bitmap {
		r.restored.Set(ip.UID, nil, relation.Grace)
	}
	return true, nil
}

func (r *Reconciler) remove(ctx context.Context, in inputs) error {
	err := timed("delete", func() error {
		return r.Client.Delete(ctx, upstream.Named(in.address.String()), client.Preconditions{UID: &in.object.UID, ResourceVersion: &in.object.ResourceVersion})
	})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting IPAddress %s: %w", in.address, err)
	}
	return nil
}

// relabel writes the two labels of the allocator and takes our purpose away: unlike deleting and
// creating, as upstream does, it leaves no moment in which the address is free.
func (r *Reconciler) relabel(ctx context.Context, in inputs) error {
	labels := map[string]any{v1alpha1.LabelPurpose: nil}
	for name, value := range upstream.Labels(in.address) {
		labels[name] = value
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": in.object.UID, "resourceVersion": in.object.ResourceVersion, "labels": labels,
	}})
	if err != nil {
		return err
	}
	err = timed("label", func() error {
		ip := upstream.Named(in.address.String())
		return r.Client.Patch(ctx, ip, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(v1alpha1.ManagerIPAddress))
	})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("labelling IPAddress %s: %w", in.address, err)
	}
	return nil
}

// timed runs one write and counts its duration, or its failure.
func timed(operation string, write func() error) error {
	start := time.Now()
	err := write()
	if refused := new(refusal.Error); errors.As(err, &refused) {
		return err // it was not tried
	}
	if err != nil && !apierrors.IsAlreadyExists(err) && !apierrors.IsNotFound(err) {
		metrics.AllocationErrors.WithLabelValues(operation).Inc()
		return err
	}
	metrics.AllocationDuration.WithLabelValues(operation).Observe(time.Since(start).Seconds())
	return err
}

// announce sends the events of a decision that was carried out: to the owner what was repaired, to
// the losers that the address is not theirs. It follows the write, so that no event speaks of what
// did not happen. Each repair is told; what cannot be repaired, and who has no right, only once.
func (r *Reconciler) announce(in inputs, d decision) {
	ip, label := upstream.Named(in.address.String()), fmt.Sprintf("[%s]: %s", allocator.FamilyOf(in.address), in.address)
	switch owner := in.owner(); {
	case d.reason == "" || (d.do == leave && !r.Tracker.Report(in.address, d.reason+d.note)):
	case owner != nil:
		r.send(owner, ip, d.reason, "ClusterIPAllocation", "Cluster IP "+label+" "+d.note)
	default:
		r.send(in.object, nil, d.reason, "IPAddressAllocation", "IPAddress "+label+" "+d.note)
	}
	for _, loser := range d.losers {
		if r.Tracker.Report(in.address, "not "+string(loser.UID)) {
			// The owner may be of another tenant: `kubectl clusterip why` tells admins who it is.
			r.send(loser, ip, reasonAlreadyAllocated, "ClusterIPAllocation", fmt.Sprintf("Cluster IP %s belongs to another Service, "+
				"which has the better right to it; create this Service anew to give it an address of its own", label))
		}
	}
}

// send sends a warning as soon as the pace of events allows.
func (r *Reconciler) send(regarding, related runtime.Object, reason, action, note string) {
	time.AfterFunc(r.eventPace.Reserve().Delay(), func() {
		r.Events.Eventf(regarding, related, corev1.EventTypeWarning, reason, action, "%s", note)
	})
}
