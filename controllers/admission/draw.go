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
	// reserve is the part of a request's time that is kept for the answer.
	reserve = 400 * time.Millisecond
	// attempts is how many addresses may be lost to others.
	attempts = 16
	// lastAttempts is the same when the time to ask others is over.
	lastAttempts = 4
	// farewell is the part of that time in which nothing is begun any more.
	farewell = 150 * time.Millisecond
	// Breaths are the pauses between two looks at ranges that are full while addresses of them are on their way in or out: near 100 % the
	// books are behind by what is in flight. They get shorter with the time that is left: who has waited longest has the best chances.
	shortestBreath, longestBreath = 4 * time.Millisecond, 64 * time.Millisecond
)

// draw finds an address for a slot: one that is kept for the Service, or one drawn from its route. It returns a refusal when the route
// has none left and says so, and nothing at all when the API server may try.
func (h *ServiceSteerer) draw(ctx context.Context, w world, s slot) (netip.Addr, *steering.Refusal, error) {
	to := ledger.Holder{Service: w.subject.NamespacedName}
	if a, ok := h.fromReservation(ctx, s, to); ok {
		return a, nil, nil
	}
	early, cancel := context.WithTimeout(ctx, timeLeft(ctx)-reserve)
	defer cancel()
	var last error
	// Once at least: what is its own a replica can draw when the other family has used up all the time.
	for lost := 0; lost < attempts && (last == nil || early.Err() == nil); {
		room := h.Ledger.Room()
		a, err := h.once(early, s, to)
		switch last = err; {
		case err == nil:
			return a, nil, nil
		case errors.Is(err, errLost):
			lost++
		case early.Err() != nil:
			// The loop ends.
		case errors.Is(err, allocator.ErrFull):
			if !h.Ledger.Moving(s.route.Tiers) {
				return netip.Addr{}, h.full(w, s), nil
			}
			h.awaitRoom(early, s, room)
		case passing(err):
			pause(early, breath(early))
		default:
			return netip.Addr{}, nil, err
		}
	}
	if a, ok := h.lastly(ctx, s, to); ok {
		return a, nil, nil
	}
	if errors.Is(last, allocator.ErrFull) {
		return netip.Addr{}, h.full(w, s), nil
	}
	return netip.Addr{}, nil, fmt.Errorf("drawing an address: there are some, but none could be had in time: %w", last)
}

// errElsewhere says that the replica which was asked for an address does not settle it, either.
var errElsewhere = errors.New("the replicas are of two minds about who settles the address")

// passing reports whether what went wrong may be over in a moment: others did not answer, or something is just being written.
func passing(err error) bool {
	return errors.Is(err, replicas.ErrNoAnswer) || errors.Is(err, errElsewhere) || errors.Is(err, ledger.ErrBusy)
}

// awaitRoom waits until an address has come free somewhere, or none may any more in these ranges: without that a full range need not be looked at
// again.
func (h *ServiceSteerer) awaitRoom(ctx context.Context, s slot, room uint64) {
	for pause(ctx, breath(ctx)); ctx.Err() == nil && h.Ledger.Room() == room && h.Ledger.Moving(s.route.Tiers); pause(ctx, breath(ctx)) {
	}
}

// timeLeft is what a request has left.
func timeLeft(ctx context.Context) time.Duration {
	if deadline, ok := ctx.Deadline(); ok {
		return time.Until(deadline)
	}
	return budget
}

// breath is how long to wait for the next look.
func breath(ctx context.Context) time.Duration {
	return min(max(timeLeft(ctx)/16, shortestBreath), longestBreath)
}

// pause waits, but no longer than there is time.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// once draws one address and settles it with the other replicas: what is its own, a replica hands out at once; what it has inherited from one that hands
// out nothing it claims through the API server; and for all else it asks the one that settles it.
func (h *ServiceSteerer) once(ctx context.Context, s slot, to ledger.Holder) (netip.Addr, error) {
	rights := h.Replicas.Rights()
	drawn, err := h.Ledger.Draw(allocator.Lot{Tiers: s.route.Tiers, Shard: rights.Shard, Yield: true}, to)
	if err != nil {
		return netip.Addr{}, err
	}
	a := drawn.Addr
	if _, kept := h.Ledger.Kept(a); kept {
		return a, h.counted(h.claimer().makeRoom(ctx, a))
	}
	switch rights.Of(a) {
	case replicas.Outright:
		return a, nil
	case replicas.Claimable:
		return a, h.counted(h.claimer().claim(ctx, a))
	default:
		return a, h.counted(h.borrow(ctx, a))
	}
}

// borrow asks the replica that settles an address for it. When that one is the owner, no more is needed; what it has inherited itself it lets us claim.
func (h *ServiceSteerer) borrow(ctx context.Context, a netip.Addr) error {
	grant, err := replicas.Refused, ctx.Err()
	if err == nil {
		grant, err = h.Replicas.Borrow(ctx, a)
	}
	switch {
	case err != nil:
		h.Ledger.Forget(a)
		return fmt.Errorf("borrowing %s: %w", a, err)
	case grant == replicas.Outright:
		return nil
	case grant == replicas.Claimable:
		return h.claimer().claim(ctx, a)
	case grant == replicas.Elsewhere:
		h.Ledger.Forget(a)
		return fmt.Errorf("borrowing %s: %w", a, errElsewhere)
	}
	h.Ledger.Lost(a)
	return errLost
}

// lastly draws when the time to ask others is over: what this replica settles, from any tier.
func (h *ServiceSteerer) lastly(ctx context.Context, s slot, to ledger.Holder) (netip.Addr, bool) {
	looking, cancel := context.WithTimeout(ctx, timeLeft(ctx)-farewell)
	defer cancel()
	for lost := 0; lost < lastAttempts && looking.Err() == nil; {
		room, rights := h.Ledger.Room(), h.Replicas.Rights()
		drawn, err := h.Ledger.Draw(allocator.Lot{Tiers: s.route.Tiers, Shard: rights.Shard, OnlyOwn: true}, to)
		switch {
		case err != nil && !h.Ledger.Moving(s.route.Tiers):
			return netip.Addr{}, false
		case err != nil:
			h.awaitRoom(looking, s, room)
		case rights.Of(drawn.Addr) == replicas.Outright || h.counted(h.claimer().claim(ctx, drawn.Addr)) == nil:
			return drawn.Addr, true
		default:
			lost++
		}
	}
	return netip.Addr{}, false
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
	deadline := h.patience(ctx)
	for _, r := range s.kept {
		for a := r.Span.First; r.Span.Contains(a); a = a.Next() {
			if state := h.Ledger.State(a); state == allocator.Allocated || state == allocator.Assumed || !h.offered(a) || !h.takeSoon(ctx, a, to, deadline) {
				continue
			}
			if err := h.makeRoom(ctx, a); err == nil {
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
