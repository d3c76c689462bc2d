package additional

import (
	"context"
	"errors"
	"fmt"

	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
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

// ignoreGone drops the errors of an object that is not there any more, or not the same one.
func ignoreGone(err error) error {
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}
