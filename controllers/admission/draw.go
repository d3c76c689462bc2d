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
	// reserve is the part of a request's time that is kept for a last try.
	reserve = sight
	// Breaths are the pauses between two looks at ranges that are full while addresses of them are on their way in or out: near 100 % the
	// books are behind by what is in flight. They grow: a look at a thousand full ranges costs most of a millisecond.
	shortestBreath, longestBreath = 4 * time.Millisecond, 64 * time.Millisecond
	// attempts is how many addresses may be lost to others.
	attempts = 16
	// deafness is for how long a replica does with its own addresses after another one has not answered.
	deafness = time.Second
)

// draw finds an address for a slot: one that is kept for the Service, or one drawn from its route. It returns a refusal when the route
// has none left and says so, and nothing at all when the API server may try.
func (h *ServiceSteerer) draw(ctx context.Context, w world, s slot) (netip.Addr, *steering.Refusal, error) {
	to := ledger.Holder{Service: w.subject.NamespacedName}
	if a, ok := h.fromReservation(ctx, s, to); ok {
		return a, nil, nil
	}
	early, cancel := context.WithTimeout(ctx, h.time(ctx))
	defer cancel()
	breath := shortestBreath
	for lost := 0; lost < attempts && early.Err() == nil; {
		a, err := h.once(early, s, to, h.deaf())
		switch {
		case err == nil:
			return a, nil, nil
		case errors.Is(err, replicas.ErrNoAnswer):
			h.deafUntil.Store(h.Clock.Now().Add(deafness).UnixNano())
		case errors.Is(err, errLost):
			lost++
		case !errors.Is(err, allocator.ErrFull) && !errors.Is(err, ledger.ErrBusy):
			return netip.Addr{}, nil, err
		case errors.Is(err, allocator.ErrFull) && !h.deaf() && !h.Ledger.AssumedIn(s.route.Tiers):
			return netip.Addr{}, h.full(w, s), nil
		default:
			pause(early, breath)
			breath = min(2*breath, longestBreath)
		}
	}
	return h.lastTry(ctx, w, s, to)
}

// time is what a request has left before its last try.
func (h *ServiceSteerer) time(ctx context.Context) time.Duration {
	deadline, ok := ctx.Deadline()
	if !ok {
		return budget - reserve
	}
	return time.Until(deadline) - reserve
}

// deaf reports whether another replica has not answered a short while ago.
func (h *ServiceSteerer) deaf() bool { return h.Clock.Now().UnixNano() < h.deafUntil.Load() }

// lastTry claims any address that is free, whoever owns it: the API server, to which the Service is left otherwise, would not ask either.
func (h *ServiceSteerer) lastTry(ctx context.Context, w world, s slot, to ledger.Holder) (netip.Addr, *steering.Refusal, error) {
	drawn, err := h.Ledger.Draw(allocator.Lot{Tiers: s.route.Tiers}, to)
	if errors.Is(err, allocator.ErrFull) {
		return netip.Addr{}, h.full(w, s), nil
	}
	if err != nil {
		return netip.Addr{}, nil, err
	}
	if err := h.counted(h.claimer().claim(ctx, drawn.Addr)); err != nil {
		return netip.Addr{}, nil, err
	}
	return drawn.Addr, nil, nil
}

// pause waits, but no longer than there is time.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// once draws one address and settles it with the other replicas: what is its own, a replica hands out at once; what belongs to another one
// is borrowed from it; and one that is not sure of what is its own claims it through the API server, which also settles it with owners that do
// not answer, or are gone. Alone means to do with one's own.
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
	case drawn.Own && sure:
		return a, nil
	case !drawn.Own && !h.Replicas.Alone():
		err := h.borrow(ctx, a, sure)
		if sure || !errors.Is(err, replicas.ErrNoAnswer) {
			return a, h.counted(err)
		}
	}
	return a, h.counted(h.claimer().claim(ctx, a))
}

// borrow asks the replica that owns an address for it. One that does not answer may be dead or not sure; its addresses come into other hands
// when that is settled; unless the caller goes on with the address itself, it is given up.
func (h *ServiceSteerer) borrow(ctx context.Context, a netip.Addr, giveUp bool) error {
	ok, err := h.Replicas.Borrow(ctx, a)
	switch {
	case err == nil && ok:
		return nil
	case err == nil:
		h.Ledger.Lost(a)
		return errLost
	case giveUp:
		h.Ledger.Forget(a)
	}
	return fmt.Errorf("borrowing %s: %w (%w)", a, replicas.ErrNoAnswer, err)
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
			if state := h.Ledger.State(a); state == allocator.Allocated || state == allocator.Assumed || !h.offered(a) || !h.takeSoon(ctx, a, to) {
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
	if s.route.Fails {
		return s.route.Full(s.is4)
	}
	if !w.snapshot.Closes(s.is4) {
		return nil
	}
	family := "IPv6"
	if s.is4 {
		family = "IPv4"
	}
	return &steering.Refusal{Message: fmt.Sprintf("no %s address is left in the ranges that are open to this Service; "+
		"other ranges are kept by ServiceCIDRPolicies for the Services that they select: delete Services, or add a ServiceCIDR", family)}
}
