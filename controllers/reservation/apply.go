package reservation

import (
	"context"
	"fmt"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	networkingv1ac "k8s.io/client-go/applyconfigurations/networking/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/internal/objects"
	"github.com/clusterip-operator/clusterip-operator/internal/upstream"
)

// inFlight is how soon an address in flight is looked at again. The index wakes us at its end, too.
const inFlight = 2 * time.Second

// apply carries out a decision, unless a Service is being handed the address, which goes first.
func (r *Reconciler) apply(ctx context.Context, in inputs, d decision) (reconcile.Result, error) {
	again := reconcile.Result{RequeueAfter: d.again}
	switch d.do {
	case leave:
		return again, nil
	case relabel:
		return again, r.relabel(ctx, in.object, d.want)
	}
	if !r.Index.BeginWrite(in.address) {
		return reconcile.Result{RequeueAfter: inFlight}, nil
	}
	made, gone, err := r.write(ctx, in, d)
	r.Index.EndWrite(in.address, made, gone)
	return again, err
}

// write carries d out. It returns the IPAddress that it created and the UID of the one it deleted.
func (r *Reconciler) write(ctx context.Context, in inputs, d decision) (made *networkingv1.IPAddress, gone types.UID, err error) {
	if d.do != create {
		if removed, err := r.remove(ctx, in.object); err != nil || !removed {
			return nil, "", err
		}
		gone = in.object.UID
	}
	if d.do != remove {
		made, err = r.create(ctx, d.want)
	}
	return made, gone, err
}

// create asks the API server for the address. A taken name is no error: the informer will tell.
func (r *Reconciler) create(ctx context.Context, want *networkingv1.IPAddress) (*networkingv1.IPAddress, error) {
	switch err := r.Client.Create(ctx, want, client.FieldOwner(v1alpha1.ManagerPolicy)); {
	case apierrors.IsAlreadyExists(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("creating IPAddress %s for ServiceCIDRPolicy %s: %w", want.Name, upstream.Policy(want), err)
	}
	log.FromContext(ctx).V(1).Info("Created an IPAddress", "purpose", purpose(want), "policy", upstream.Policy(want))
	return want, nil
}

// remove deletes the very object that was judged, and reports whether it did. If that is gone or
// another one, a replica took it away to hand the address out: what comes next is not ours to say.
func (r *Reconciler) remove(ctx context.Context, o *networkingv1.IPAddress) (removed bool, err error) {
	err = r.Client.Delete(ctx, o, client.Preconditions{UID: &o.UID})
	if objects.IgnoreGone(err) != nil {
		return false, fmt.Errorf("deleting IPAddress %s: %w", o.Name, err)
	}
	if err == nil {
		log.FromContext(ctx).V(1).Info("Deleted an IPAddress", "purpose", purpose(o), "policy", upstream.Policy(o))
	}
	return err == nil, nil
}

// relabel is a server-side apply: it leaves no moment in which the address is free. The UID keeps
// it from bringing an object back that went in the meantime.
func (r *Reconciler) relabel(ctx context.Context, o, want *networkingv1.IPAddress) error {
	owner := want.OwnerReferences[0]
	ip := networkingv1ac.IPAddress(o.Name).WithAPIVersion(r.APIVersion).WithUID(o.UID).WithLabels(want.Labels).WithAnnotations(want.Annotations).
		WithOwnerReferences(metav1ac.OwnerReference().WithAPIVersion(owner.APIVersion).WithKind(owner.Kind).WithName(owner.Name).WithUID(owner.UID))
	err := r.Client.Apply(ctx, ip, client.FieldOwner(v1alpha1.ManagerPolicy), client.ForceOwnership)
	if objects.IgnoreGone(err) != nil {
		return fmt.Errorf("labelling IPAddress %s: %w", o.Name, err)
	}
	return nil
}
