package admission

import (
	"context"
	"net/netip"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/internal/addressindex"
	"github.com/clusterip-operator/clusterip-operator/internal/steering"
)

const (
	// answerTime is the part of a request's time that is kept for the answer.
	answerTime = 400 * time.Millisecond
	// maxLost is how many addresses may turn out to be another Service's before a draw gives up.
	maxLost = 16
	// busyFor is how long a request waits for an address where we are just writing an IPAddress.
	busyFor = 500 * time.Millisecond
)

// holder is the Service, and the review, for which this request draws and takes addresses.
func (in inputs) holder() addressindex.Holder {
	return addressindex.Holder{Service: in.subject.NamespacedName, Review: in.review}
}

// take puts an address in flight that is free, or kept for the Service, so that no request draws it
// while the API server writes it; also one that an earlier review of the Service was given, for
// which our IPAddress has made room already. It waits while we are writing an IPAddress there.
func (h *ServiceSteerer) take(ctx context.Context, in inputs, a netip.Addr) bool {
	if !in.policies.Offers(a) {
		return false
	}
	if h.Index.TakeOver(a, in.holder()) {
		return true
	}
	waiting, cancel := context.WithTimeout(ctx, busyFor)
	defer cancel()
	for {
		taken, busy := h.Index.Take(a, in.holder())
		if busy == nil {
			return taken && h.makeRoom(ctx, in, a)
		}
		select {
		case <-busy:
		case <-waiting.Done():
			return false
		}
	}
}

// draw finds an address for a slot: one that is reserved for the Service, or one drawn from its
// route. It waits while a full range may have room in a moment. Without an address it returns the
// refusal, or nothing at all when the API server may try.
func (h *ServiceSteerer) draw(ctx context.Context, in inputs, s slot) (netip.Addr, *steering.Refusal) {
	if a, ok := h.fromReservation(ctx, in, s); ok {
		return a, nil
	}
	deadline, _ := ctx.Deadline()
	waiting, cancel := context.WithDeadline(ctx, deadline.Add(-answerTime))
	defer cancel()
	for range maxLost {
		drawn, err := h.Index.Await(waiting, s.route.Tiers, in.holder())
		if err != nil {
			break
		}
		if by := h.Policies.Current().Restriction(drawn.Addr); by != nil { // since the request came
			h.forget(in, []netip.Addr{drawn.Addr})
			return netip.Addr{}, steering.JustWithheld(by, s.family)
		}
		if h.makeRoom(ctx, in, drawn.Addr) {
			return drawn.Addr, nil
		}
	}
	return netip.Addr{}, in.policies.Full(s.route, s.family)
}

// fromReservation returns the first address reserved for the Service that is not in use.
func (h *ServiceSteerer) fromReservation(ctx context.Context, in inputs, s slot) (netip.Addr, bool) {
	for _, r := range s.reserved {
		for a := range r.Addresses() {
			if by := h.Policies.Current().Restriction(a); by != nil && by.Allocation == v1alpha1.AllocationCordoned { // since the request came
				continue
			}
			h.awaitNamesake(ctx, in, a)
			if h.Index.State(a) != allocator.Allocated && h.take(ctx, in, a) {
				return a, true
			}
		}
	}
	return netip.Addr{}, false
}

// awaitNamesake waits while an address is shown as that of a Service with the name of the one that
// is created: that Service is gone already, for no two have one name, and the watch is late.
func (h *ServiceSteerer) awaitNamesake(ctx context.Context, in inputs, a netip.Addr) {
	waiting, cancel := context.WithTimeout(ctx, busyFor)
	defer cancel()
	for h.Index.HeldBy(a, in.subject.NamespacedName) {
		select {
		case <-waiting.Done():
			return
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// makeRoom deletes our IPAddress at an address in flight, so that the API server can write its own.
// If it returns false, the caller does not have the address any more.
func (h *ServiceSteerer) makeRoom(ctx context.Context, in inputs, a netip.Addr) bool {
	err := h.Index.MakeRoom(ctx, h.Writer, a, in.holder(), v1alpha1.PurposeReservation, v1alpha1.PurposeCooling)
	if err != nil {
		log.FromContext(ctx).Info("An address could not be freed", "address", a, "problem", err.Error())
	}
	return err == nil
}
