package renumber

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/internal/batch"
	"github.com/clusterip-operator/clusterip-operator/internal/upstream"
)

// prepare has the API server keep the addresses that the first Service gives to second ones, or
// gets from them, all at once: it takes a second or two. The first Service is as ever meanwhile.
func (m Mover) prepare(ctx context.Context, i Item) error {
	var all []handover
	for _, a := range i.leaves() {
		h, err := m.record(ctx, i, a, "")
		if err != nil {
			return err
		}
		all = append(all, h)
	}
	for _, a := range i.takes() {
		ip, second, err := m.pair(ctx, i, a)
		if err != nil {
			return err
		}
		if !vouches(i, ip, second) {
			continue
		}
		h, err := m.record(ctx, i, a, second.UID)
		if err != nil {
			return err
		}
		all = append(all, h)
	}
	return m.guard(ctx, all...)
}

// take has the API server give an address that a second Service keeps to the first one again, whose
// next update asks for it, and reports whether it was so. That is between its two updates: the
// second Service serves on.
func (m Mover) take(ctx context.Context, i Item, a netip.Addr) (taken bool, err error) {
	record, found, err := m.recorded(ctx, i, a)
	if err != nil {
		return false, err
	}
	ip, second, err := m.pair(ctx, i, a)
	if err != nil || ip == nil || upstream.Service(ip) != record.Second {
		return false, err
	}
	var uid types.UID
	switch {
	case record.stranded(ip, second):
	case vouches(i, ip, second) || found != nil && record.of(second):
		uid = second.UID
	default:
		return false, nil
	}
	if _, err := m.begin(ctx, i, a, uid); err != nil {
		return false, err
	}
	if err := m.free(ctx, ip); !errors.Is(err, batch.ErrMoved) {
		return true, err
	}
	return true, nil // the next try finds what has become of it
}

// takeAll is take for several addresses, and reports whether any was taken.
func (m Mover) takeAll(ctx context.Context, i Item, all []netip.Addr) (taken bool, err error) {
	if m.Keep != KeepService {
		return false, nil
	}
	for _, a := range all {
		one, err := m.take(ctx, i, a)
		if err != nil {
			return taken, err
		}
		taken = taken || one
	}
	return taken, nil
}

// seconds ends the handovers of an item: each address is of one Service and its IPAddress names
// that one. It returns those that second Services keep. s is the first Service, nil if it is gone.
func (m Mover) seconds(ctx context.Context, i Item, s *corev1.Service) (out []Held, err error) {
	if s != nil && s.UID != i.UID {
		s = nil
	}
	for _, a := range append(i.leaves(), i.New...) {
		h, err := m.secure(ctx, i, s, a)
		if err != nil {
			return out, err
		}
		if h != nil {
			out = append(out, *h)
		}
	}
	return out, nil
}

// secure is seconds for one address.
func (m Mover) secure(ctx context.Context, i Item, s *corev1.Service, a netip.Addr) (*Held, error) {
	record, found, err := m.recorded(ctx, i, a)
	if err != nil {
		return nil, err
	}
	ip, second, err := m.pair(ctx, i, a)
	if err != nil {
		return nil, err
	}
	has := s != nil && slices.Contains(addresses(s), a)
	// Its owner may have made another Service of it.
	vouched := (vouches(i, ip, second) || found != nil && record.of(second)) && slices.Contains(addresses(second), a)
	switch {
	case !vouched && found == nil && !record.stranded(ip, second):
		return nil, nil // renumbering has made no second Service, or it is gone
	case vouched && s != nil && between(s):
		return nil, nil // the next run goes on
	case vouched && s != nil && !has:
		return m.keeps(ctx, i, s, a, ip, second, found != nil)
	case vouched:
		err = m.giveBack(ctx, i, a, ip, second, has)
	case has:
		if record.stranded(ip, second) {
			if _, err = m.begin(ctx, i, a, ""); err == nil {
				err = m.free(ctx, ip)
			}
		}
		if err == nil {
			err = m.renew(ctx, upstream.NewIPAddress(a, i.Key()))
		}
	case ip != nil && upstream.Service(ip) == record.Second: // its Service is gone
		err = m.free(ctx, ip)
	}
	if err == nil {
		err = m.dropCopies(ctx, i, a)
	}
	if err != nil {
		return nil, err
	}
	return nil, m.end(ctx, a)
}

// keeps completes a second Service that has the address alone. Its endpoints covered those of the
// first one before that left; since then both follow their selectors. The record ends before slices
// are waited for: what another client does to these keeps no address from other Services.
func (m Mover) keeps(ctx context.Context, i Item, s *corev1.Service, a netip.Addr, ip *networkingv1.IPAddress, second *corev1.Service, recorded bool) (*Held, error) {
	since := m.now()
	if vouches(i, ip, second) {
		since = ip.Annotations[v1alpha1.AnnotationReleased]
	}
	if err := m.renew(ctx, marked(upstream.NewIPAddress(a, nameOf(second)), i, second, since)); err != nil {
		return nil, err
	}
	if recorded {
		if err := m.end(ctx, a); err != nil {
			return nil, err
		}
	}
	if err := m.follow(ctx, i, s, a, second); err != nil {
		return nil, err
	}
	if err := m.awaitSlices(ctx, i, a, seen); err != nil {
		return nil, fmt.Errorf("copies of other slices serve meanwhile: %w", err)
	}
	if err := m.dropCopies(ctx, i, a); err != nil {
		return nil, err
	}
	at, err := time.Parse(time.RFC3339Nano, since)
	if err != nil {
		at = second.CreationTimestamp.Time
	}
	return &Held{Item: i, Address: a, Since: at, Second: second.UID}, nil
}

// follow brings a second Service up to what the first one is now. One that the API server refuses
// serves on as it is: that is told, and is no reason to keep it for longer.
func (m Mover) follow(ctx context.Context, i Item, s *corev1.Service, a netip.Addr, second *corev1.Service) error {
	for range tries {
		next := following(i, second, s, a)
		if equality.Semantic.DeepEqual(next.Spec, second.Spec) {
			return nil
		}
		uid := second.UID
		_, err := m.update(ctx, next)
		switch {
		case refusal(err):
			logr.FromContextOrDiscard(ctx).Info("The second Service stays as it is, and is not what the first one is now", "service", nameOf(second).String(), "error", err.Error())
			return nil
		case !errors.Is(err, batch.ErrMoved):
			return err
		}
		_, second, err = m.pair(ctx, i, a)
		if err != nil || second == nil || second.UID != uid || !slices.Contains(addresses(second), a) {
			return err
		}
	}
	return left("another client writes Service %s all the time", secondName(i, a))
}

// giveBack ends a second Service whose address the first one has again, or never gave up, or that
// is left behind by one that is gone.
//
// The API server deletes the IPAddress of a deleted Service, whichever it names: our finalizer
// holds it for that moment.
func (m Mover) giveBack(ctx context.Context, i Item, a netip.Addr, ip *networkingv1.IPAddress, second *corev1.Service, has bool) error {
	if !has {
		if err := m.remove(ctx, second); err != nil {
			return err
		}
		ip, err := m.ipAddress(ctx, a)
		if err != nil || ip == nil || !held(ip) || upstream.Service(ip) != nameOf(second) {
			return err
		}
		return m.free(ctx, ip)
	}
	if ip == nil || !ofService(ip, i.Key()) {
		if _, err := m.begin(ctx, i, a, second.UID); err != nil {
			return err
		}
		if ip != nil {
			if err := m.free(ctx, ip); err != nil {
				return err
			}
		}
		if err := m.renew(ctx, upstream.NewIPAddress(a, i.Key())); err != nil {
			return err
		}
	}
	if err := m.hold(ctx, i, a); err != nil {
		return err
	}
	if err := m.remove(ctx, second); err != nil {
		return err
	}
	return m.renew(ctx, upstream.NewIPAddress(a, i.Key()))
}

// remove deletes a second Service, if it is still that one. Where a finalizer of its owner keeps
// it, it becomes an ExternalName: it would have its address for as long as the owner likes, and at
// its end the API server would delete the IPAddress, even of another Service. Not the other way
// round: killed between the two, a run would leave an ExternalName that looks like a tenant's.
func (m Mover) remove(ctx context.Context, second *corev1.Service) error {
	for range tries {
		s, err := get(ctx, m, nameOf(second), &corev1.Service{})
		switch {
		case err != nil || s == nil || s.UID != second.UID:
			return err
		case s.DeletionTimestamp.IsZero():
			err = m.delete(ctx, s)
		case s.Spec.Type != corev1.ServiceTypeExternalName:
			_, err = m.update(ctx, withoutAddress(s))
		default:
			return nil
		}
		if err != nil && !errors.Is(err, batch.ErrMoved) && !apierrors.IsNotFound(err) { // the next look tells
			return fmt.Errorf("deleting Service %s: %w", nameOf(second), err)
		}
	}
	return fmt.Errorf("another client writes Service %s all the time", nameOf(second))
}
