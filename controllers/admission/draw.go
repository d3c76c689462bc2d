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
	// Breaths are the pauses between two looks at ranges that are full while addresses of them are on their way in or out: near 100 % the
	// books are behind by what is in flight. They grow: a look at a thousand full ranges costs most of a millisecond.
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
	breath, unanswered := shortestBreath, false
	var last error
	// Once at least: what is its own a replica can draw when the other family has used up all the time.
	for lost := 0; lost < attempts && (last == nil || early.Err() == nil); {
		a, err := h.once(early, s, to)
		switch last = err; {
		case err == nil:
			return a, nil, nil
		case errors.Is(err, replicas.ErrNoAnswer):
			unanswered = true
			pause(early, breath) // what is our own may come free
			breath = min(2*breath, longestBreath)
		case errors.Is(err, errLost):
			lost++
		case !errors.Is(err, allocator.ErrFull) && !errors.Is(err, ledger.ErrBusy):
			return netip.Addr{}, nil, err
		case errors.Is(err, allocator.ErrFull) && !h.Ledger.AssumedIn(s.route.Tiers):
			return netip.Addr{}, h.full(w, s), nil
		default:
			pause(early, breath)
			breath = min(2*breath, longestBreath)
		}
	}
	if unanswered {
		if a, ok := h.withoutOthers(ctx, s, to); ok {
			return a, nil, nil
		}
	}
	if errors.Is(last, allocator.ErrFull) {
		return netip.Addr{}, h.full(w, s), nil
	}
	return netip.Addr{}, nil, fmt.Errorf("drawing an address: there are some, but none could be had in time: %w", last)
}

// timeLeft is what a request has left.
func timeLeft(ctx context.Context) time.Duration {
	if deadline, ok := ctx.Deadline(); ok {
		return time.Until(deadline)
	}
	return budget
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
// not answer such a one, and with others about what belongs to one that is idle.
//
// A replica that is sure does not claim what belongs to one that may hand it out, as long as that one answers: the owner hands it out without a look
// at the API server.
func (h *ServiceSteerer) once(ctx context.Context, s slot, to ledger.Holder) (netip.Addr, error) {
	shard, sure := h.Replicas.Shard()
	drawn, err := h.Ledger.Draw(allocator.Lot{Tiers: s.route.Tiers, Shard: shard, Yield: true}, to)
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
	case !drawn.Own:
		if done, err := h.fromOthers(ctx, a, sure); done {
			return a, err
		}
	}
	return a, h.counted(h.claimer().claim(ctx, a))
}

// fromOthers settles an address of another replica with it. It is done unless the address may be claimed, as this replica is the heir of one that hands
// out nothing, or is not sure of anything.
func (h *ServiceSteerer) fromOthers(ctx context.Context, a netip.Addr, sure bool) (done bool, err error) {
	owner, heir := h.Replicas.Owner(a)
	switch {
	case heir == h.Replicas.ID():
		return false, nil
	case sure && (heir != owner || h.silent.is(owner, h.Clock.Now())):
		h.Ledger.Forget(a) // another one's to claim, or nobody's to give
		return true, replicas.ErrNoAnswer
	}
	err = h.borrow(ctx, a, sure)
	if errors.Is(err, replicas.ErrNoAnswer) {
		h.silent.note(owner, h.Clock.Now())
	}
	return sure || !errors.Is(err, replicas.ErrNoAnswer), h.counted(err)
}

// withoutOthers draws after others have not answered for what is theirs: what is this replica's for sure, from any tier, and otherwise what
// belongs to one that was silent, by a claim. That may meet a draw of its owner, if it is slow and not dead; but so may what the API server
// draws, to which the Service is left otherwise, and from all that is free.
func (h *ServiceSteerer) withoutOthers(ctx context.Context, s slot, to ledger.Holder) (netip.Addr, bool) {
	shard, sure := h.Replicas.Shard()
	if !sure {
		return netip.Addr{}, false
	}
	if drawn, err := h.Ledger.Draw(allocator.Lot{Tiers: s.route.Tiers, Shard: shard, OnlyOwn: true}, to); err == nil {
		return drawn.Addr, true
	}
	drawn, err := h.Ledger.Draw(allocator.Lot{Tiers: s.route.Tiers, Shard: shard}, to)
	if err != nil {
		return netip.Addr{}, false
	}
	owner, heir := h.Replicas.Owner(drawn.Addr)
	if !drawn.Own && heir != h.Replicas.ID() && !h.silent.is(owner, h.Clock.Now()) {
		h.Ledger.Forget(drawn.Addr)
		return netip.Addr{}, false
	}
	return drawn.Addr, drawn.Own || h.counted(h.claimer().claim(ctx, drawn.Addr)) == nil
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
