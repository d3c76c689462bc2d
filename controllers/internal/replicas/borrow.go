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

// ErrNoAnswer says that the owner of an address did not answer in time: it may be dead, or not sure of its shard.
var ErrNoAnswer = errors.New("the replica that owns the address does not answer")

// Borrow asks the owner of an address whether this replica may hand it out, and waits for the answer. After true the owner has taken it
// out of its own draws for us; it has to be handed out at once. After false somebody has it. The error is ErrNoAnswer, or that of ctx.
//
// Asks and answers travel in the Leases. Those of many callers travel together, as far as there is room in one letter; the others wait.
func (m *Members) Borrow(ctx context.Context, a netip.Addr) (bool, error) {
	began := m.clock.Now()
	nonce := utilrand.String(8)
	answer := m.lending.ask(nonce, a)
	defer m.endAsk(nonce)
	m.alarm.post()
	timer := m.clock.NewTimer(answering)
	defer timer.Stop()
	select {
	case granted := <-answer:
		if m.clock.Since(began) > answering {
			return false, ErrNoAnswer // this machine stood still: the owner may have taken it back
		}
		return granted, nil
	case <-timer.C():
		return false, ErrNoAnswer
	case <-ctx.Done():
		return false, ctx.Err()
	}
}

// endAsk takes an ask back. Somebody may wait for its place in the letter.
func (m *Members) endAsk(nonce string) {
	if m.lending.drop(nonce) {
		m.alarm.post()
	}
}
