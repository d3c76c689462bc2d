package additional

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
)

// release deletes IPAddresses, each only if it is still the one that was judged.
func (r *Reconciler) release(ctx context.Context, w world, addresses []held) error {
	var failed error
	for _, h := range addresses {
		ip := &networkingv1.IPAddress{ObjectMeta: metav1.ObjectMeta{Name: h.address.String()}}
		if err := ignoreGone(r.Client.Delete(ctx, ip, client.Preconditions{UID: &h.uid})); err != nil {
			failed = errors.Join(failed, fmt.Errorf("deleting IPAddress %s: %w", h.address, err))
			continue
		}
		log.FromContext(ctx).Info("Released an additional address", "address", h.address, "serviceCIDR", h.serviceCIDR)
	}
	return failed
}

// list brings the annotation that lists addresses up to date.
func (r *Reconciler) list(ctx context.Context, w world, addresses []netip.Addr) error {
	slices.SortFunc(addresses, netip.Addr.Compare)
	value := listOf(addresses)
	if w.service == nil || w.service.deleting || value == w.service.listed {
		return nil
	}
	write := r.writeList
	if value == "" {
		write = r.removeList
	}
	if err := ignoreGone(write(ctx, w, value)); err != nil {
		return fmt.Errorf("writing the annotation %s: %w", v1alpha1.AnnotationAdditionalIPs, err)
	}
	return nil
}

// writeList is a server-side apply, so that the annotation stays when the Service is applied by its user. It goes through the status, with
// which an API server takes annotations too: who may write no more than that cannot change where a Service leads.
func (r *Reconciler) writeList(ctx context.Context, w world, value string) error {
	apply := corev1ac.Service(w.name.Name, w.name.Namespace).WithUID(w.service.uid).
		WithAnnotations(map[string]string{v1alpha1.AnnotationAdditionalIPs: value})
	return r.Client.Status().Apply(ctx, apply, client.FieldOwner(v1alpha1.ManagerAdditional), client.ForceOwnership)
}

// removeList takes the annotation away whoever wrote it: an apply without it would leave what a user copied from elsewhere.
func (r *Reconciler) removeList(ctx context.Context, w world, _ string) error {
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": w.service.uid, "annotations": map[string]any{v1alpha1.AnnotationAdditionalIPs: nil},
	}})
	if err != nil {
		return err
	}
	target := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: w.name.Namespace, Name: w.name.Name}}
	return r.Client.Status().Patch(ctx, target, client.RawPatch(types.MergePatchType, body), client.FieldOwner(v1alpha1.ManagerAdditional))
}

// ignoreGone drops the errors of an object that is not there any more, or not the same one.
func ignoreGone(err error) error {
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}
