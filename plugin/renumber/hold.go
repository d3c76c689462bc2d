package renumber

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/internal/batch"
	"github.com/clusterip-operator/clusterip-operator/internal/upstream"
)

// hold puts our finalizer on an IPAddress, so that it stays when the API server lets go of it.
func (m Mover) hold(ctx context.Context, i Item, a netip.Addr) error {
	for range tries {
		ip, err := m.ipAddress(ctx, a)
		switch {
		case err != nil:
			return err
		case ip == nil || !ofService(ip, i.Key()):
			return left("its address %s has no IPAddress that names it: `kubectl clusterip check` says more", a)
		case held(ip):
			return nil
		case !ip.DeletionTimestamp.IsZero():
			return left("the IPAddress of %s is being deleted", a)
		}
		next := ip.DeepCopy()
		next.Finalizers = append(next.Finalizers, v1alpha1.FinalizerFormer)
		if err := m.patch(ctx, ip, next); !errors.Is(err, batch.ErrMoved) {
			return err
		}
	}
	return left("another client writes the IPAddress of %s all the time", a)
}

// unhold takes our finalizer off again; an IPAddress that is ours, or that the API server has let
// go of, is gone then. It leaves those alone that are not of the Service.
func (m Mover) unhold(ctx context.Context, i Item, a netip.Addr) error {
	for range tries {
		ip, err := m.ipAddress(ctx, a)
		if err != nil || ip == nil || !ofService(ip, i.Key()) || !held(ip) {
			return err
		}
		if upstream.ManagedByOperator(ip) && ip.DeletionTimestamp.IsZero() { // before the finalizer goes: the next run of one that is killed here finds it by that
			if err := m.delete(ctx, ip); err != nil {
				return fmt.Errorf("deleting IPAddress %s: %w", ip.Name, err)
			}
			continue
		}
		if err := m.patch(ctx, ip, unheld(ip)); !errors.Is(err, batch.ErrMoved) {
			return err
		}
	}
	return fmt.Errorf("another client writes the IPAddress of %s all the time", a)
}

// unheld is an IPAddress without our finalizer.
func unheld(ip *networkingv1.IPAddress) *networkingv1.IPAddress {
	next := ip.DeepCopy()
	next.Finalizers = slices.DeleteFunc(next.Finalizers, func(f string) bool { return f == v1alpha1.FinalizerFormer })
	return next
}

// patch writes what is different, if the object still has the version that was read.
func (m Mover) patch(ctx context.Context, from, to *networkingv1.IPAddress) error {
	err := batch.Guarded(ctx, func() error {
		return m.Client.Patch(ctx, to.DeepCopy(), client.MergeFromWithOptions(from, client.MergeFromWithOptimisticLock{}), client.FieldOwner(v1alpha1.ManagerRenumbering))
	})
	if err != nil && !errors.Is(err, batch.ErrMoved) {
		return fmt.Errorf("writing IPAddress %s: %w", from.Name, err)
	}
	return err
}

// Held is an old address that is kept for a Service.
type Held struct {
	Item    Item
	Address netip.Addr
	// Since is when the Service had it no more.
	Since time.Time
	// Second is the UID of the second Service that keeps it, empty where there is none.
	Second types.UID
}

// keep turns old addresses that the API server has let go of into additional ones. It gives up what
// the Service does not need, because it is gone or another one, or has the address as ever.
func (m Mover) keep(ctx context.Context, i Item, s *corev1.Service) (out []Held, err error) {
	if m.Keep == KeepService {
		if out, err = m.seconds(ctx, i, s); err != nil {
			return out, err
		}
	}
	for _, a := range append(i.leaves(), i.New...) {
		h := Held{Item: i, Address: a}
		if s == nil || s.UID != i.UID || !slices.Contains(former(s), a) {
			if err := m.unhold(ctx, i, a); err != nil {
				return out, err
			}
			continue
		}
		switch h.Since, err = m.relabel(ctx, s, a); {
		case errors.Is(err, errFree):
			if err := m.release(ctx, h); err != nil {
				return out, err
			}
		case err != nil:
			return out, err
		default:
			out = append(out, h)
		}
	}
	if len(out) == 0 {
		err = m.disown(ctx, i)
	}
	return out, err
}

// errFree says that a former address has no holder any more, so that any Service can be given it.
var errFree = errors.New("nothing holds it")

// relabel makes an IPAddress that the API server has let go of ours, and returns since when it is.
func (m Mover) relabel(ctx context.Context, s *corev1.Service, a netip.Addr) (since time.Time, err error) {
	for range tries {
		ip, err := m.ipAddress(ctx, a)
		if err != nil {
			return since, err
		}
		if !keptFor(ip, s) {
			return since, errFree
		}
		if since, err = time.Parse(time.RFC3339Nano, ip.Annotations[v1alpha1.AnnotationReleased]); err == nil && upstream.ManagedByOperator(ip) {
			return since, nil
		}
		next := ip.DeepCopy()
		since = m.Clock.Now().UTC()
		metav1.SetMetaDataLabel(&next.ObjectMeta, networkingv1.LabelManagedBy, v1alpha1.ManagedByOperator)
		metav1.SetMetaDataLabel(&next.ObjectMeta, v1alpha1.LabelPurpose, v1alpha1.PurposeAdditional)
		next.Annotations = map[string]string{v1alpha1.AnnotationServiceUID: string(s.UID), v1alpha1.AnnotationReleased: since.Format(time.RFC3339Nano)}
		if err := m.patch(ctx, ip, next); !errors.Is(err, batch.ErrMoved) {
			return since, err
		}
	}
	return since, fmt.Errorf("another client writes the IPAddress of %s all the time", a)
}

// ofService reports whether an IPAddress names the Service.
func ofService(ip *networkingv1.IPAddress, name types.NamespacedName) bool {
	return upstream.Service(ip) == name
}

func held(ip *networkingv1.IPAddress) bool {
	return slices.Contains(ip.Finalizers, v1alpha1.FinalizerFormer)
}
