package policy

import (
	"time"

	"github.com/clusterip-operator/clusterip-operator/controllers/internal/addressindex"
)

const (
	// settle is how long a freed address cools in memory alone: a Service that is deleted and created anew takes it back without a
	// write on our side.
	settle = time.Second
	// skew is how far the clocks of two replicas may be apart. A replica by whose clock an IPAddress goes before its time is up would think that the
	// address is being handed out.
	skew = 500 * time.Millisecond
	// unknownFor is how long an IPAddress of ours with an unknown purpose is left alone. Another version of the operator may use it for a moment.
	unknownFor = 30 * time.Second
)

// action is what becomes of an IPAddress.
type action int

const (
	leave   action = iota
	create         // write it
	remove         // delete it
	replace        // delete it and write it anew
	relabel        // write labels, annotations and owner back
)

// verdict is the decision: what to do about an address.
type verdict struct {
	do action
	// want is what should be there after create, replace and relabel.
	want *wish
	// again asks for another look later, when a time is over.
	again time.Duration
}

// decide says what to do about one address.
func decide(w world) verdict {
	want, again := wanted(w)
	switch {
	case w.object == nil && want == nil:
		return verdict{again: again}
	case w.object == nil:
		return verdict{do: create, want: want, again: again}
	case w.object.deleting, w.object.kind == alien:
		return verdict{} // not ours to change; when it goes we are told
	case w.object.unknown() && w.now.Sub(w.object.created) < unknownFor:
		return verdict{again: unknownFor - w.now.Sub(w.object.created)}
	case want == nil:
		return verdict{do: remove, again: again}
	default:
		return verdict{do: want.differs(w.object), want: want, again: again}
	}
}

// wanted is the IPAddress that should stand at the address, nil for none, and when that may change by itself. A reservation comes
// before a cool-down. It stays while its range is being deleted, and holds it, for somebody has asked for it; an address that
// merely cools holds nobody up.
func wanted(w world) (want *wish, again time.Duration) {
	switch {
	case w.claimed:
		return nil, 0
	case w.reservation != nil:
		if w.offered || (w.covered && w.reserves()) {
			want = reserve(w.address, *w.reservation)
		}
		return want, 0
	case w.rest == nil || !w.offered || w.coolDown <= 0:
		return nil, 0
	default:
		return wantedRest(w, *w.rest)
	}
}

func wantedRest(w world, rest addressindex.CoolDown) (want *wish, again time.Duration) {
	age := w.now.Sub(rest.Released)
	switch over := w.coolDown; {
	case w.object == nil && age < settle:
		return nil, settle - age
	case w.object == nil && age >= over, age >= over+skew:
		return nil, 0
	default:
		return cool(w.address, rest, w.cooler), over + skew - age
	}
}
