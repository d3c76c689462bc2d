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
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/internal/batch"
	"github.com/clusterip-operator/clusterip-operator/internal/objects"
)

// Mover moves Services, one at a time or many side by side. All fields but Refusal are required.
type Mover struct {
	// Client reads from the API server itself, and writes.
	Client client.Client
	Keep   Keep
	// Rules are asked again right before a Service is moved; nil for the way back.
	Rules *Rules
	// Awaited are those of the Rules, for the way back too.
	Awaited map[types.NamespacedName][]string
	// Refusal says why a Service may not, or cannot, have its new addresses, empty if it gets them.
	// kept: second Services keep those that it does not have. Nil allows all.
	Refusal func(ctx context.Context, s *corev1.Service, takes []netip.Addr, kept bool) (string, error)
	Clock   clock.PassiveClock
}

// LeftError says why a Service was left as it is, or what became of it instead.
type LeftError struct{ Why string }

// Error implements error.
func (e *LeftError) Error() string { return e.Why }

func left(format string, args ...any) error { return &LeftError{fmt.Sprintf(format, args...)} }

// tries is how often a Service is looked at anew because another client writes it meanwhile.
const tries = 20

// Move takes a Service from any stage to its new addresses, and returns the old ones kept for it.
// It can be called again after any interruption, and outlasts ctx between the two updates.
// LeftError: the Service has its addresses of before, or what its owner or the API server gave it.
func (m Mover) Move(ctx context.Context, i Item) ([]Held, error) {
	finish := finishing(ctx)
	s, err := m.service(ctx, i)
	for range tries {
		if err != nil {
			break
		}
		switch stage, why := stageOf(i, s); stage {
		case Waiting:
			if m.Rules == nil {
				i.Balancer = s.Status.LoadBalancer // on the way back there is no other plan to be made
			}
			s, err = m.leave(ctx, i, s)
		case Between:
			if s.Spec.Type == corev1.ServiceTypeLoadBalancer {
				s, err = m.restore(finish, i, s)
			} else {
				s, err = m.enter(finish, i, s)
			}
		case Left:
			err = left("%s", why)
		default:
			if s, err = m.settle(finish, i, s); err == nil {
				return m.keep(finish, i, s)
			}
		}
		if errors.Is(err, batch.ErrMoved) { // another client wrote it
			s, err = m.service(finish, i)
		}
	}
	if err == nil {
		err = left("another client writes it all the time")
	}
	if why, is := errors.AsType[*LeftError](err); is {
		return m.abandon(finish, i, why)
	}
	return nil, err
}

// abandon gives up what was held for a Service that is left, except the old addresses that it has
// had until now. The error is why it is left, unless that fails.
//
// An API server that reads an old version of the Service from its cache allocates the new addresses
// before it finds that another client was faster, and keeps them.
func (m Mover) abandon(ctx context.Context, i Item, why *LeftError) ([]Held, error) {
	s, err := m.service(ctx, i)
	if err != nil {
		return nil, err
	}
	unused := slices.DeleteFunc(slices.Clone(i.New), func(a netip.Addr) bool { return s != nil && slices.Contains(addresses(s), a) })
	if _, err := m.sweep(ctx, i, unused, true); err != nil {
		return nil, err
	}
	if s != nil && s.UID == i.UID && !between(s) {
		if s, err = m.settle(ctx, i, s); err != nil {
			return nil, err
		}
	}
	held, err := m.keep(ctx, i, s)
	if err != nil {
		return held, err
	}
	return held, why
}

// finishing returns a context that ends a while after ctx: a Service must not be left between, but
// an API server that is away is not waited for any longer.
func finishing(ctx context.Context) context.Context {
	out, cancel := context.WithCancel(context.WithoutCancel(ctx))
	context.AfterFunc(ctx, func() { time.AfterFunc(30*time.Second, cancel) })
	return out
}

// service reads a Service, nil if there is none.
func (m Mover) service(ctx context.Context, i Item) (*corev1.Service, error) {
	return get(ctx, m, i.Key(), &corev1.Service{})
}

// ipAddress reads an IPAddress, nil if there is none.
func (m Mover) ipAddress(ctx context.Context, a netip.Addr) (*networkingv1.IPAddress, error) {
	return get(ctx, m, types.NamespacedName{Name: a.String()}, &networkingv1.IPAddress{})
}

// get reads an object, nil if there is none.
func get[T client.Object](ctx context.Context, m Mover, key types.NamespacedName, into T) (found T, err error) {
	err = batch.Retry(ctx, func() error {
		found, err = objects.Get(ctx, m.Client, key, into)
		return err
	})
	return found, err
}

// delete deletes an object, if it is still that one.
func (m Mover) delete(ctx context.Context, o client.Object) error {
	uid := o.GetUID()
	return objects.IgnoreGone(batch.Retry(ctx, func() error { return m.Client.Delete(ctx, o, client.Preconditions{UID: &uid}) }))
}

// update writes a Service. The version guards what another client wrote: then it is batch.ErrMoved.
func (m Mover) update(ctx context.Context, s *corev1.Service, options ...client.UpdateOption) (*corev1.Service, error) {
	err := batch.Guarded(ctx, func() error {
		next := s.DeepCopy()
		err := m.Client.Update(ctx, next, append(options, client.FieldOwner(v1alpha1.ManagerRenumbering))...)
		if err == nil {
			s = next
		}
		return err
	})
	return s, err
}

// updateStatus writes the status of a Service. The error is as that of update.
func (m Mover) updateStatus(ctx context.Context, s *corev1.Service) (*corev1.Service, error) {
	err := batch.Guarded(ctx, func() error {
		next := s.DeepCopy()
		err := m.Client.Status().Update(ctx, next, client.FieldOwner(v1alpha1.ManagerRenumbering))
		if err == nil {
			s = next
		}
		return err
	})
	if err != nil && !errors.Is(err, batch.ErrMoved) {
		return nil, fmt.Errorf("writing the status of Service %s: %w", nameOf(s), err)
	}
	return s, err
}

// settle takes the record off a Service that is not between any more, and first the proof of it:
// its owner must not use it once more.
func (m Mover) settle(ctx context.Context, i Item, s *corev1.Service) (*corev1.Service, error) {
	for range tries {
		next, proof, annotation := settled(s)
		var err error
		switch {
		case proof:
			s, err = m.updateStatus(ctx, next)
		// An annotation that the owner wrote stays on an ExternalName: nothing believes it.
		case annotation && !v1alpha1.BeingRenumbered(s):
			s, err = m.update(ctx, next)
		default:
			return s, nil
		}
		if errors.Is(err, batch.ErrMoved) {
			s, err = m.service(ctx, i)
		}
		switch {
		case err != nil:
			return nil, err
		case s == nil || s.UID != i.UID:
			return nil, batch.ErrMoved
		}
	}
	return nil, fmt.Errorf("another client writes Service %s all the time", i.Key())
}
