package admission

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/controllers/internal/steering"
)

const (
	// answerTime is the part of a request's time that is kept for the answer.
	answerTime = 400 * time.Millisecond
	// maxLost is how many addresses may turn out to be somebody else's before a draw gives up.
	maxLost = 16
	// busyFor is how long a request waits for an address at which an IPAddress of ours is just being written.
	busyFor = 500 * time.Millisecond
	// pollInterval is the pause between two readings of the register.
	pollInterval = 5 * time.Millisecond
)

var errLost = errors.New("somebody else has the address")

// take puts the addresses that the request names in flight, so that nobody draws them while the API server writes them, and deletes the IPAddress of ours that is kept
// there for the Service. An address that cannot be had is left to the API server to refuse. It returns those that were taken.
func (h *ServiceSteerer) take(ctx context.Context, in inputs, d decision) (taken []netip.Addr) {
	for _, a := range d.take {
		if !in.policies.Offers(a) || !h.takeOne(ctx, a, in.subject.NamespacedName) {
			continue
		}
		if err := h.makeRoom(ctx, a); err != nil {
			log.FromContext(ctx).Info("An address could not be freed for its Service", "address", a, "problem", err.Error())
			continue
		}
		taken = append(taken, a)
	}
	return taken
}

// takeOne takes an address that is free, or kept for somebody. It waits for an IPAddress of ours that is just being written there.
func (h *ServiceSteerer) takeOne(ctx context.Context, a netip.Addr, to types.NamespacedName) (taken bool) {
	_ = wait.PollUntilContextTimeout(ctx, pollInterval, busyFor, true, func(context.Context) (bool, error) {
		var busy bool
		taken, busy = h.Index.Take(a, to)
		return !busy, nil
	})
	return taken
}

// draw finds an address for a slot: one that is reserved for the Service, or one drawn from its route. Without one it returns the refusal, or
// nothing at all when the API server may try.
func (h *ServiceSteerer) draw(ctx context.Context, in inputs, s slot) (netip.Addr, *steering.Refusal) {
	if a, ok := h.fromReservation(ctx, in, s); ok {
		return a, nil
	}
	deadline, _ := ctx.Deadline()
	waiting, cancel := context.WithDeadline(ctx, deadline.Add(-answerTime))
	defer cancel()
	for lost := 0; lost < maxLost; {
		room := h.Index.Room()
		drawn, err := h.Index.Draw(s.route.Tiers, in.subject.NamespacedName)
		switch {
		case err == nil:
			if err = h.makeRoom(ctx, drawn.Addr); err == nil {
				return drawn.Addr, nil
			}
			log.FromContext(ctx).Info("An address could not be freed", "address", drawn.Addr, "problem", err.Error())
			lost++
		case !h.Index.Moving(s.route.Tiers) || waiting.Err() != nil:
			return netip.Addr{}, full(in, s)
		default:
			h.awaitRoom(waiting, s, room)
		}
	}
	return netip.Addr{}, full(in, s)
}

// awaitRoom waits until an address has come free somewhere, or none may any more in these ranges; or for a tenth of a second, in which one that is in
// flight may have become old enough to yield.
func (h *ServiceSteerer) awaitRoom(ctx context.Context, s slot, room uint64) {
	_ = wait.PollUntilContextTimeout(ctx, pollInterval, 20*pollInterval, false, func(context.Context) (bool, error) {
		return h.Index.Room() != room || !h.Index.Moving(s.route.Tiers), nil
	})
}

// fromReservation returns the first address that is reserved for the Service and that nobody has.
func (h *ServiceSteerer) fromReservation(ctx context.Context, in inputs, s slot) (netip.Addr, bool) {
	for _, r := range s.reserved {
		for a := r.Span.First; r.Span.Contains(a); a = a.Next() {
			if h.Index.State(a) == allocator.Allocated || !in.policies.Offers(a) || !h.takeOne(ctx, a, in.subject.NamespacedName) {
				continue
			}
			if err := h.makeRoom(ctx, a); err == nil {
				return a, true
			}
		}
	}
	return netip.Addr{}, false
}

// makeRoom deletes the IPAddress of ours at an address that is in flight, so that the API server can write its own. After an error the address is not
// the caller's any more.
func (h *ServiceSteerer) makeRoom(ctx context.Context, a netip.Addr) error {
	k, ok := h.Index.Owned(a)
	if !ok {
		return nil
	}
	if k.Purpose != v1alpha1.PurposeReservation && k.Purpose != v1alpha1.PurposeCooling {
		h.Index.Lost(a) // it has become an additional address of some Service
		return errLost
	}
	ip := &networkingv1.IPAddress{ObjectMeta: metav1.ObjectMeta{Name: a.String()}}
	err := h.Writer.Delete(ctx, ip, client.Preconditions{UID: &k.UID})
	switch {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		h.Index.Lost(a)
		return errLost
	case err != nil:
		h.Index.Forget(a)
		return fmt.Errorf("deleting IPAddress %s: %w", a, err)
	}
	return nil
}

// full says why there is no address: the policy that refuses, or that all that is left belongs to others. Nothing, where the API
// server may look for itself.
func full(in inputs, s slot) *steering.Refusal {
	if s.route.Fails {
		return s.route.Full(s.is4)
	}
	if !in.policies.Closes(s.is4) {
		return nil
	}
	family := "IPv6"
	if s.is4 {
		family = "IPv4"
	}
	return &steering.Refusal{Message: fmt.Sprintf("no %s address is left in the ranges that are open to this Service; "+
		"other ranges are kept by ServiceCIDRPolicies for the Services that they select: delete Services, or add a ServiceCIDR", family)}
}
