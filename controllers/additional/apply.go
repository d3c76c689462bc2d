package additional

import (
	"context"
	"errors"
	"fmt"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/clusterip-operator/clusterip-operator/controllers/internal/objects"
)

// release deletes IPAddresses, each only if it is still the one that was judged.
func (r *Reconciler) release(ctx context.Context, addresses []held) error {
	var failed error
	for _, h := range addresses {
		ip := &networkingv1.IPAddress{ObjectMeta: metav1.ObjectMeta{Name: h.address.String()}}
		if err := objects.IgnoreGone(r.Client.Delete(ctx, ip, client.Preconditions{UID: &h.uid})); err != nil {
			failed = errors.Join(failed, fmt.Errorf("deleting IPAddress %s: %w", h.address, err))
			continue
		}
		log.FromContext(ctx).Info("Released an additional address", "address", h.address, "serviceCIDR", h.serviceCIDR)
	}
	return failed
}
