package admission

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/clusterip-operator/clusterip-operator/allocator"
	"github.com/clusterip-operator/clusterip-operator/controllers/internal/ledger"
	"github.com/clusterip-operator/clusterip-operator/controllers/internal/metrics"
	"github.com/clusterip-operator/clusterip-operator/controllers/internal/replicas"
	"github.com/clusterip-operator/clusterip-operator/controllers/internal/steering"
)

const (
	// respite is how long a full range is waited for while addresses of it are on their way in or out: near 100 % the books are behind
	// by what is in flight.
	respite = 500 * time.Millisecond
	// breath is the pause between two tries.
	breath = 5 * time.Millisecond
	// attempts is how many addresses may be lost to others before the request is left to the API server.
	attempts = 16
	// knocks is how many replicas that own what is free may not answer before theirs is left to them.
	knocks = 1
)

// draw finds an address for a slot: one that is kept for the Service, or one drawn from its route. It returns a refusal when the route
// has none left and says so, and nothing at all when the API server may try.
func (h *ServiceSteerer) draw(ctx context.Context, w world, s slot) (netip.Addr, *steering.Refusal, error) {
	to := ledger.Holder{Service: w.subject.NamespacedName}
	if a, ok := h.fromReservation(ctx, s, to); ok {
		return a, nil, nil
	}
	deadline := h.Clock.Now().Add(respite)
	unanswered := 0
	for lost := 0; lost < attempts; {
		a, err := h.once(ctx, s, to, unanswered >= knocks)
		switch {
		case err == nil:
			return a, nil, nil
		case errors.Is(err, replicas.ErrNoAnswer):
			unanswered++
			lost++
		case errors.Is(err, errLost):
			lost++
		case errors.Is(err, ledger.ErrBusy):
			lost++
			pause(ctx, breath)
		case !errors.Is(err, allocator.ErrFull):
			return netip.Addr{}, nil, err
		case h.Ledger.Assumed() == 0 || h.Clock.Now().After(deadline) || !pause(ctx, breath):
			return netip.Addr{}, h.full(w, s), nil
		}
	}
	return netip.Addr{}, nil, fmt.Errorf("drawing an address: %d were taken by others", attempts)
}

// pause waits, and is false when there is no time for it.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// once draws one address and settles it with the other replicas: what is its own, a replica hands out at once; what belongs to another one
// is borrowed from it; and one that is not sure of what is its own claims it through the API server, which also settles it with owners that do
// not answer, or are gone.
func (h *ServiceSteerer) once(ctx context.Context, s slot, to ledger.Holder, alone bool) (netip.Addr, error) {
	shard, sure := h.Replicas.Shard()
	drawn, err := h.Ledger.Draw(allocator.Lot{Tiers: s.route.Tiers, Shard: shard, OnlyOwn: alone && sure, Yield: true}, to)
	if err != nil {
		return netip.Addr{}, err
	}
	a := drawn.Addr
	_, kept := h.Ledger.Kept(a)
	switch {
	case kept:
		return a, h.counted(h.claimer().makeRoom(ctx, a))
	case !drawn.Own && !h.Replicas.Alone():
		err := h.borrow(ctx, a)
		if err == nil || errors.Is(err, errLost) {
			return a, h.counted(err)
		}
		if sure {
			h.Ledger.Forget(a)
			return a, h.counted(err)
		}
	case drawn.Own && sure:
		return a, nil
	}
	return a, h.counted(h.claimer().claim(ctx, a))
}

// borrow asks the replica that owns an address for it. One that does not answer may be dead; its addresses are free again when its Lease
// has ended.
func (h *ServiceSteerer) borrow(ctx context.Context, a netip.Addr) error {
	ok, err := h.Replicas.Borrow(ctx, a)
	switch {
	case err != nil:
		return fmt.Errorf("borrowing %s: %w", a, err)
	case !ok:
		h.Ledger.Lost(a)
		return errLost
	}
	return nil
}

// counted counts how a claim ended.
func (h *ServiceSteerer) counted(err error) error {
	switch {
	case err == nil:
		metrics.AdmissionClaims.WithLabelValues("won").Inc()
	case errors.Is(err, errLost):
		metrics.AdmissionClaims.WithLabelValues("lost").Inc()
	default:
		metrics.AdmissionClaims.WithLabelValues("failed").Inc()
	}
	return err
}

// fromReservation returns the first address that is kept for the Service and that nobody has.
func (h *ServiceSteerer) fromReservation(ctx context.Context, s slot, to ledger.Holder) (netip.Addr, bool) {
	for _, r := range s.kept {
		for a := r.Span.First; r.Span.Contains(a); a = a.Next() {
			if !h.offered(a) || !h.takeSoon(ctx, a, to) {
				continue
			}
			if err := h.claimer().makeRoom(ctx, a); err == nil {
				return a, true
			}
		}
	}
	return netip.Addr{}, false
}

// offered reports whether API servers allocate from a range with this address.
func (h *ServiceSteerer) offered(a netip.Addr) bool {
	return h.Board.Current().Offers(a)
}

// full says why there is no address: the policy that refuses, or that all that is left belongs to others. Nothing, where the API
// server may look for itself.
func (h *ServiceSteerer) full(w world, s slot) *steering.Refusal {
	family := "IPv6"
	if s.is4 {
		family = "IPv4"
	}
	if s.route.Fails {
		return s.route.Full(family)
	}
	if !w.snapshot.Closes(s.is4) {
		return nil
	}
	return &steering.Refusal{Message: fmt.Sprintf("no %s address is left in the ranges that are open to this Service; "+
		"other ranges are kept by ServiceCIDRPolicies for the Services that they select: delete Services, or add a ServiceCIDR", family)}
}
