package renumber

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/internal/batch"
	"github.com/clusterip-operator/clusterip-operator/internal/upstream"
)

// giveAll is give for all addresses that the first Service is about to give up. Nothing is written
// if one of the second Services would be refused.
func (m Mover) giveAll(ctx context.Context, i Item, s *corev1.Service) error {
	for _, a := range i.leaves() {
		if err := m.admitted(ctx, i, s, a); err != nil {
			return err
		}
	}
	if err := m.prepare(ctx, i); err != nil {
		return err
	}
	for _, a := range i.leaves() {
		if err := m.give(ctx, i, s, a); err != nil {
			return err
		}
	}
	return nil
}

// give has a second Service keep an address while the first one has it still, so that there is no
// moment in which no Service has it for a proxy. Then the IPAddress names the second one, and has a
// finalizer: the API server deletes it when the first Service leaves, whichever it names.
//
// It can be called again after any interruption. LeftError: nothing is different for any client.
func (m Mover) give(ctx context.Context, i Item, s *corev1.Service, a netip.Addr) error {
	h, err := m.begin(ctx, i, a, "")
	if err != nil {
		return err
	}
	var refused error
	copied := false
	for range tries {
		ip, second, err := m.pair(ctx, i, a)
		switch {
		case err != nil:
			return err
		case second != nil && !h.of(second) && !vouches(i, ip, second):
			return left("Service %s exists, and renumbering has not made it: rename or delete it", nameOf(second))
		case second != nil && !slices.Contains(addresses(second), a):
			return left("the owner of Service %s has taken %s from it: delete it", nameOf(second), a)
		case second != nil && vouches(i, ip, second):
			if err := m.follow(ctx, i, s, a, second); err != nil {
				return err
			}
			if err := m.awaitSlices(ctx, i, a, covered); err != nil || copied {
				return err
			}
			return m.dropCopies(ctx, i, a) // of a run that was killed: their pods may be gone
		case second != nil && ip != nil && upstream.Service(ip) == nameOf(second):
			err = m.mark(ctx, i, ip, second)
		case second != nil && ip == nil: // it was created, and its IPAddress deleted
			next := marked(upstream.NewIPAddress(a, nameOf(second)), i, second, m.now())
			next.Finalizers = []string{v1alpha1.FinalizerFormer}
			err = m.allocate(ctx, next)
		case ip != nil && !ofService(ip, i.Key()) && !h.stranded(ip, second):
			return left("%s is taken by %s", a, upstream.Describe(ip))
		case second == nil && !copied:
			err = m.copySlices(ctx, i, a)
			copied = err == nil
		case ip != nil:
			err = m.free(ctx, ip)
		default:
			err = m.create(ctx, newSecond(i, s, a, h.Nonce))
			if allocating(err) { // another writer may have brought the IPAddress back
				refused, err = err, batch.Sleep(ctx, askEvery/4)
			}
		}
		switch {
		case errors.Is(err, batch.ErrMoved):
		case refusal(err):
			return left("the API server refuses the second Service, which would keep %s: %v", a, err)
		case err != nil:
			return err
		}
	}
	if refused != nil {
		return left("the API server does not give %s to a second Service, though no IPAddress has it: one that keeps the legacy bitmap too (Kubernetes 1.33 without the gate DisableAllocatorDualWrite) "+
			"never does: %v", a, refused)
	}
	return left("another client writes the IPAddress of %s all the time", a)
}

// admitted asks for a second Service without creating it: nothing is given up for one that is
// refused. It cannot tell whether the address is taken.
func (m Mover) admitted(ctx context.Context, i Item, s *corev1.Service, a netip.Addr) error {
	if why := noSecond(s); why != "" {
		return left("%s", why)
	}
	_, second, err := m.pair(ctx, i, a)
	if err != nil || second != nil {
		return err
	}
	for range tries {
		switch err = m.create(ctx, newSecond(i, s, a, "none"), client.DryRunAll); {
		case allocating(err): // a dry run looks into one ServiceCIDR, a random one
		case refusal(err):
			return left("no second Service could keep %s: %v", a, err)
		default:
			return err
		}
	}
	return nil
}

// allocating reports whether a Service is refused because of its address alone.
func allocating(err error) bool {
	var status apierrors.APIStatus
	return apierrors.IsInvalid(err) && errors.As(err, &status) && status.Status().Details != nil && !slices.ContainsFunc(status.Status().Details.Causes, func(c metav1.StatusCause) bool {
		return c.Field != "spec.clusterIPs" || !strings.Contains(c.Message, "failed to allocate IP")
	})
}

// create creates a second Service. A name that is taken is batch.ErrMoved.
func (m Mover) create(ctx context.Context, s *corev1.Service, options ...client.CreateOption) error {
	err := batch.Guarded(ctx, func() error {
		return m.Client.Create(ctx, s, append(options, client.FieldOwner(v1alpha1.ManagerRenumbering))...)
	})
	if err != nil && !refusal(err) && !errors.Is(err, batch.ErrMoved) {
		return fmt.Errorf("creating Service %s: %w", nameOf(s), err)
	}
	return err
}

// pair reads the IPAddress and the second Service of an address, nil where there is none.
func (m Mover) pair(ctx context.Context, i Item, a netip.Addr) (ip *networkingv1.IPAddress, second *corev1.Service, err error) {
	if ip, err = m.ipAddress(ctx, a); err != nil {
		return nil, nil, err
	}
	second, err = get(ctx, m, secondName(i, a), &corev1.Service{})
	return ip, second, err
}

func (m Mover) now() string { return m.Clock.Now().UTC().Format(time.RFC3339Nano) }

// mark writes the proof onto the IPAddress of a second Service, and the finalizer.
func (m Mover) mark(ctx context.Context, i Item, ip *networkingv1.IPAddress, second *corev1.Service) error {
	next := marked(ip, i, second, m.now())
	if ip.DeletionTimestamp.IsZero() && !held(ip) {
		next.Finalizers = append(next.Finalizers, v1alpha1.FinalizerFormer)
	}
	return m.patch(ctx, ip, next)
}

// free deletes an IPAddress whose address another Service of the same record is about to get. The
// label tells the operator's webhook that this is no mistake.
func (m Mover) free(ctx context.Context, ip *networkingv1.IPAddress) error {
	next := unheld(ip)
	if len(next.Finalizers) > 0 {
		return left("the IPAddress of %s has finalizers of other programs (%.300s), so that it would not go when it is handed over", ip.Name, next.Finalizers)
	}
	metav1.SetMetaDataLabel(&next.ObjectMeta, v1alpha1.LabelPurpose, v1alpha1.PurposeHandover)
	if err := m.patch(ctx, ip, next); err != nil || !ip.DeletionTimestamp.IsZero() {
		return err
	}
	if err := m.delete(ctx, ip); err != nil {
		return fmt.Errorf("deleting IPAddress %s: %w", ip.Name, err)
	}
	return nil
}

// allocate creates an IPAddress. One that exists is batch.ErrMoved.
func (m Mover) allocate(ctx context.Context, ip *networkingv1.IPAddress) error {
	err := batch.Guarded(ctx, func() error { return m.Client.Create(ctx, ip, client.FieldOwner(v1alpha1.ManagerRenumbering)) })
	if err != nil && !errors.Is(err, batch.ErrMoved) {
		return fmt.Errorf("creating IPAddress %s: %w", ip.Name, err)
	}
	return err
}

// renew leaves an address with a plain IPAddress, without our finalizer, that names a Service which
// has it. One that the API server has deleted, and the finalizer holds, is written anew. LeftError:
// another Service has it.
func (m Mover) renew(ctx context.Context, want *networkingv1.IPAddress) error {
	for range tries {
		ip, err := m.ipAddress(ctx, netip.MustParseAddr(want.Name))
		switch {
		case err != nil:
			return err
		case ip == nil:
			err = m.allocate(ctx, want.DeepCopy())
		case upstream.Service(ip) != upstream.Service(want):
			return left("IPAddress %s is %s, and Service %s has the address: `kubectl clusterip check` says more", ip.Name, upstream.Describe(ip), upstream.Service(want))
		case held(ip):
			err = m.patch(ctx, ip, unheld(ip))
		case !ip.DeletionTimestamp.IsZero():
			err = batch.Sleep(ctx, askEvery/4)
		case ip.Labels[v1alpha1.LabelPurpose] != want.Labels[v1alpha1.LabelPurpose]: // the API server's own repair has written it
			next := ip.DeepCopy()
			next.Labels, next.Annotations = want.Labels, want.Annotations
			err = m.patch(ctx, ip, next)
		default:
			return nil
		}
		if err != nil && !errors.Is(err, batch.ErrMoved) {
			return err
		}
	}
	return fmt.Errorf("another client writes the IPAddress of %s all the time", want.Name)
}
