package replicas

import (
	"context"
	"errors"
	"net/netip"
	"time"

	utilrand "k8s.io/apimachinery/pkg/util/rand"
)

// answering is how long an owner may take to answer. It takes two writes and two watch events, some 15 ms when nothing else is going on.
const answering = 650 * time.Millisecond

// unhurried is how long the owner must have had for its answer before its silence is held against it.
const unhurried = 300 * time.Millisecond

// ErrOut says that this replica has no Lease, as it has just started, or stops: it settles nothing, and can ask nobody.
var ErrOut = errors.New("this replica is not one of those that hand out addresses: it starts, or stops")

// ErrNoAnswer says that nobody answered in time who settles an address: it may be dead, or the replicas are of two minds about who does.
var ErrNoAnswer = errors.New("the replica that settles the address does not answer")

// Borrow asks the replica that settles an address what this one may do with it, and waits for the answer. After Outright and Claimable the other one
// has taken it out of its own draws for us: it has to be handed out, or claimed, at once. After Refused somebody has it; after Elsewhere ask again later. The
// error is ErrNoAnswer, ErrOut, or that of ctx. A replica that does not answer is passed over until it is heard of: what it settles, its heirs do.
//
// Asks and answers travel in the Leases. Those of many callers travel together, as far as there is room in one letter; the others wait.
func (m *Members) Borrow(ctx context.Context, a netip.Addr) (Grant, error) {
	rights, began := m.Rights(), m.clock.Now()
	if grant := rights.Of(a); grant != Refused {
		return grant, nil // it has come to us since the caller looked
	}
	if len(rights.inLine) == 0 {
		return Refused, ErrOut
	}
	holder := rights.holder(a)
	nonce := utilrand.String(8)
	answer := m.lending.ask(nonce, holder, a)
	defer m.endAsk(nonce)
	m.alarm.post()
	timer := m.clock.NewTimer(answering)
	defer timer.Stop()
	select {
	case granted := <-answer:
		if m.clock.Since(began) > answering {
			return Refused, ErrNoAnswer // this machine stood still: the owner may have taken it back
		}
		return granted, nil
	case <-timer.C():
		if at := m.lending.sentAt(nonce); !at.IsZero() && m.clock.Since(at) >= unhurried {
			m.silence.asked(holder, at)
		}
		return Refused, ErrNoAnswer
	case <-ctx.Done():
		return Refused, ctx.Err()
	}
}

// endAsk takes an ask back. Somebody may wait for its place in the letter.
func (m *Members) endAsk(nonce string) {
	if m.lending.drop(nonce) {
		m.alarm.post()
	}
}
