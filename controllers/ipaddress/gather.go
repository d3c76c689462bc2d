package ipaddress

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterip-operator/clusterip-operator/controllers/internal/ledger"
)

// sight says where the two kinds are read: from the cache for a first look, from the API server itself before
// anything is written.
type sight struct{ addresses, services client.Reader }

// gather reads the world of an address: the IPAddress and the Services that have to do with it.
func (r *Reconciler) gather(ctx context.Context, from sight, a netip.Addr) (world, error) {
	w := world{now: r.Clock.Now(), address: a, offered: len(r.Ledger.Covering(a)) > 0, bitmap: r.Bitmap}
	ip, err := get(ctx, from.addresses, types.NamespacedName{Name: a.String()}, &networkingv1.IPAddress{})
	if err != nil {
		return w, err
	}
	services := r.Ledger.Claims(a)
	if ip != nil {
		w.object = newObject(ip)
		if parent := w.object.service; parent.Name != "" && !slices.Contains(services, parent) {
			services = append(services, parent)
		}
	}
	for _, name := range services {
		if err := w.addService(ctx, from.services, name); err != nil {
			return w, err
		}
	}
	sortClaims(w.claims)
	return w, nil
}

// addService enters a Service as claimant, as parent of the object, as both, or not at all.
func (w *world) addService(ctx context.Context, reader client.Reader, name types.NamespacedName) error {
	s, err := get(ctx, reader, name, &corev1.Service{})
	if err != nil || s == nil {
		return err
	}
	c := newClaim(s, slices.Contains(ledger.ClusterIPs(s), w.address))
	if c.holds {
		w.claims = append(w.claims, c)
	}
	if w.object != nil && w.object.named(&c) {
		w.parent = &c
	}
	return nil
}

// get reads an object, nil when there is none.
func get[T client.Object](ctx context.Context, reader client.Reader, name types.NamespacedName, into T) (T, error) {
	var none T
	switch err := reader.Get(ctx, name, into); {
	case apierrors.IsNotFound(err):
		return none, nil
	case err != nil:
		return none, fmt.Errorf("reading %T %s: %w", into, name, err)
	}
	return into, nil
}

// ignoreGone drops the errors of an object that is not there any more, or not the same one.
func ignoreGone(err error) error {
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}
