package policy

import (
	"context"
	"fmt"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	networkingv1ac "k8s.io/client-go/applyconfigurations/networking/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
)

// inFlight is when an address is looked at again that is in flight. The address index wakes the controller when that ends, too.
const inFlight = 2 * time.Second

// apply carries out a decision, unless somebody is being handed the address just now. It goes first: it has waited for a Service.
func (k *Keeper) apply(ctx context.Context, w world, v verdict) (reconcile.Result, error) {
	if v.do == relabel {
		return reconcile.Result{RequeueAfter: v.again}, k.relabel(ctx, w, v.want)
	}
	if !k.Index.BeginWrite(w.address) {
		return reconcile.Result{RequeueAfter: inFlight}, nil
	}
	made, gone, err := k.write(ctx, w, v)
	k.Index.EndWrite(w.address, made, gone)
	return reconcile.Result{RequeueAfter: v.again}, err
}

// write deletes what has to go and creates what has to come. It returns the IPAddress that was created and the UID of the one that was deleted.
func (k *Keeper) write(ctx context.Context, w world, v verdict) (made *networkingv1.IPAddress, gone types.UID, err error) {
	if v.do != create {
		if removed, err := k.remove(ctx, w); err != nil || !removed {
			return nil, "", err
		}
		gone = w.object.uid
	}
	if v.do != remove {
		made, err = k.create(ctx, w, v.want)
	}
	return made, gone, err
}

// create asks the API server for the address. A name that is taken is somebody else's success: the informer will tell.
func (k *Keeper) create(ctx context.Context, w world, want *wish) (*networkingv1.IPAddress, error) {
	ip := want.ipAddress(w.address)
	switch err := k.Client.Create(ctx, ip, client.FieldOwner(v1alpha1.ManagerPolicy)); {
	case apierrors.IsAlreadyExists(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("creating IPAddress %s for ServiceCIDRPolicy %s: %w", w.address, want.owner.name, err)
	}
	log.FromContext(ctx).V(1).Info("Kept an address", "purpose", ip.Labels[v1alpha1.LabelPurpose], "policy", want.owner.name)
	return ip, nil
}

// remove deletes the very object that was judged, and reports whether it did. One that is gone, or another one by now, was taken away by
// a replica that hands the address out: what comes next is not ours to say.
func (k *Keeper) remove(ctx context.Context, w world) (removed bool, err error) {
	ip := &networkingv1.IPAddress{ObjectMeta: metav1.ObjectMeta{Name: w.address.String()}}
	switch err := k.Client.Delete(ctx, ip, client.Preconditions{UID: &w.object.uid}); {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("deleting IPAddress %s: %w", w.address, err)
	}
	log.FromContext(ctx).V(1).Info("Let an address go", "purpose", w.object.purpose(), "policy", w.object.policy)
	return true, nil
}

// relabel is a server-side apply: it leaves no moment in which the address is free. The UID keeps it from bringing an object back that
// went in the meantime.
func (k *Keeper) relabel(ctx context.Context, w world, want *wish) error {
	ip := networkingv1ac.IPAddress(w.address.String()).WithAPIVersion(k.APIVersion).WithUID(w.object.uid).
		WithLabels(want.labels).WithAnnotations(want.annotations).
		WithOwnerReferences(metav1ac.OwnerReference().WithAPIVersion(v1alpha1.GroupVersion.String()).WithKind(policyKind).
			WithName(want.owner.name).WithUID(want.owner.uid))
	err := k.Client.Apply(ctx, ip, client.FieldOwner(v1alpha1.ManagerPolicy), client.ForceOwnership)
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("labelling IPAddress %s: %w", w.address, err)
	}
	return nil
}
