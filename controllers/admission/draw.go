package admission

import (
	"context"
	"net/netip"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
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

// take puts an address in flight that is free, or kept for the Service, so that nobody draws it while the API server writes it. It waits for an IPAddress of
// ours that is just being written there.
func (h *ServiceSteerer) take(ctx context.Context, in inputs, a netip.Addr) (taken bool) {
	if !in.policies.Offers(a) {
		return false
	}
	_ = wait.PollUntilContextTimeout(ctx, pollInterval, busyFor, true, func(context.Context) (bool, error) {
		var busy bool
		taken, busy = h.Index.Take(a, in.subject.NamespacedName)
		return !busy, nil
	})
	return taken && h.makeRoom(ctx, a)
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
		case err == nil && h.makeRoom(ctx, drawn.Addr):
			return drawn.Addr, nil
		case err == nil:
			lost++
		case !h.Index.Moving(s.route.Tiers) || waiting.Err() != nil:
			return netip.Addr{}, in.policies.Full(s.route, s.is4)
		default:
			h.awaitRoom(waiting, s, room)
		}
	}
	return netip.Addr{}, in.policies.Full(s.route, s.is4)
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
		for a := range r.Addresses() {
			if h.Index.State(a) != allocator.Allocated && h.take(ctx, in, a) {
				return a, true
			}
		}
	}
	return netip.Addr{}, false
}

// makeRoom deletes the IPAddress of ours at an address that is in flight, so that the API server can write its own. If it is false the address is not the
// caller's any more.
func (h *ServiceSteerer) makeRoom(ctx context.Context, a netip.Addr) bool {
	err := h.Index.MakeRoom(ctx, h.Writer, a, v1alpha1.PurposeReservation, v1alpha1.PurposeCooling)
	if err != nil {
		log.FromContext(ctx).Info("An address could not be freed", "address", a, "problem", err.Error())
	}
	return err == nil
}
