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
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/internal/batch"
	"github.com/clusterip-operator/clusterip-operator/internal/upstream"
)

// enter gives a Service that is between its new addresses. If the API server refuses them the
// Service gets its old ones back, and at last whatever it can have: an ExternalName serves no
// client. Where node ports are what is refused it gets the addresses with other ports.
func (m Mover) enter(ctx context.Context, i Item, s *corev1.Service) (*corev1.Service, error) {
	was, err := underway(i, s)
	if err != nil {
		return nil, left("%v", err)
	}
	var refused error
	anyPorts := false
	tries := [][]netip.Addr{i.New, i.Old, i.New[:len(i.New)/2], nil} // of two, the first alone may be free; of one, this is none
	for len(tries) > 0 {
		with, write := tries[0], m.update
		if refused == nil {
			write = m.patient(i)
		}
		next, err := m.enterWith(ctx, i, s, was, with, anyPorts || len(tries) == 1, write)
		switch {
		case err == nil && refused != nil:
			if v1alpha1.BeingRenumbered(next) {
				next, err = m.restore(ctx, i, next)
			}
			if err != nil {
				return nil, err
			}
			return nil, left("the API server refused what it was to have (%s): %v; it has %s now", texts(i.New), refused, texts(addresses(next)))
		case !refusal(err) || apierrors.IsInternalError(err) && len(with) == len(i.New): // an API server that fails would fail with any address: the Service waits for the next run, and nothing is given up
			return next, err
		case !anyPorts && aboutNodePorts(err):
			anyPorts = true
		default:
			tries = tries[1:]
		}
		if _, err := m.sweep(ctx, i, with, true); err != nil {
			return nil, err
		}
		refused, s = errors.Join(refused, err), released(s, with) // nothing holds them any more
	}
	return nil, fmt.Errorf("the API server takes no update that gives Service %s an address, and it is of type ExternalName: %w", i.Key(), refused)
}

// updater is Mover.update, or something like it.
type updater func(context.Context, *corev1.Service, ...client.UpdateOption) (*corev1.Service, error)

// enterWith carries out the second update.
func (m Mover) enterWith(ctx context.Context, i Item, s *corev1.Service, was *record, with []netip.Addr, anyPorts bool, write updater) (*corev1.Service, error) {
	kept, err := m.kept(ctx, s)
	if err != nil {
		return nil, err
	}
	next := entering(s, was, with, without(kept, with), m.Keep == KeepExternalIPs)
	if anyPorts {
		dropNodePorts(next)
	}
	for _, a := range with {
		if err := m.unhold(ctx, i, a); err != nil {
			return nil, err
		}
	}
	if _, err := m.takeAll(ctx, i, with); err != nil {
		return nil, err
	}
	return write(ctx, next)
}

// The API server may still work on a request of a killed command, or was killed at it: the
// addresses and node ports that it allocated for the Service are free in a moment, or never.
const (
	askEvery = 200 * time.Millisecond
	orphaned = 8  // tries, after which no API server comes for an IPAddress that was allocated so
	attempts = 15 // tries
)

// patient returns an update that waits a while where a Service gets in its own way.
func (m Mover) patient(i Item) updater {
	return func(ctx context.Context, s *corev1.Service, _ ...client.UpdateOption) (*corev1.Service, error) {
		for try := 1; ; try++ {
			out, err := m.update(ctx, s)
			if !apierrors.IsInvalid(err) || try == attempts {
				return out, err
			}
			// The operator's repair writes the IPAddress of a second Service anew within 50 ms.
			if taken, failed := m.takeAll(ctx, i, i.New); failed != nil {
				return out, errors.Join(err, failed)
			} else if taken {
				continue
			}
			if others, failed := m.sweep(ctx, i, i.New, try == orphaned); failed != nil || others {
				return out, errors.Join(err, failed)
			}
			if failed := batch.Sleep(ctx, askEvery); failed != nil {
				return nil, failed
			}
		}
	}
}

// sweep reports whether another owner has one of the addresses, and deletes IPAddresses of them
// that an API server has allocated for a Service that is between, and left behind: it refuses an
// update for the second address of two and keeps the first.
func (m Mover) sweep(ctx context.Context, i Item, all []netip.Addr, remove bool) (others bool, err error) {
	for _, a := range all {
		ip, err := m.ipAddress(ctx, a)
		switch {
		case err != nil:
			return others, err
		case ip == nil || upstream.ManagedByOperator(ip) || held(ip):
		case !ofService(ip, i.Key()):
			others = true
		case remove:
			if err := m.delete(ctx, ip); err != nil {
				return others, fmt.Errorf("deleting IPAddress %s, which an API server has left behind: %w", ip.Name, err)
			}
		}
	}
	return others, nil
}

// refusal reports whether the API server has understood a request and will not have it.
func refusal(err error) bool {
	return apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err) || apierrors.IsInternalError(err)
}

// aboutNodePorts reports whether node ports are refused. An API server whose client is killed in
// the middle of the first update forgets to free them, and takes ten minutes to notice.
func aboutNodePorts(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && status.Status().Details != nil && slices.ContainsFunc(status.Status().Details.Causes, func(c metav1.StatusCause) bool {
		return strings.HasSuffix(c.Field, ".nodePort") || strings.HasSuffix(c.Field, ".healthCheckNodePort")
	})
}

// dropNodePorts gives up the numbers, which other Services may have taken.
func dropNodePorts(s *corev1.Service) {
	s.Spec.HealthCheckNodePort = 0
	for i := range s.Spec.Ports {
		s.Spec.Ports[i].NodePort = 0
	}
}

// restore gives a load balancer that lacks its status the one of its record, and takes the proof of
// that off in the same write. If its cloud controller is faster, it is not between any more.
func (m Mover) restore(ctx context.Context, i Item, s *corev1.Service) (*corev1.Service, error) {
	was, err := underway(i, s)
	if err != nil {
		return nil, left("%v", err)
	}
	next, _, _ := settled(s)
	next.Status.LoadBalancer = was.Balancer
	return m.updateStatus(ctx, next)
}
