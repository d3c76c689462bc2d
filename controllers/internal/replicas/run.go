package replicas

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
)

// farewell is how long a replica that stops waits for the API server.
const farewell = 2 * time.Second

// Start keeps the Lease of this replica, and watches those of the others, until ctx ends. It never fails: while the API server is
// away the replica is not sure of its shard, and it recovers by itself.
//
// When ctx ends the replica gives up its shard at once and deletes its Lease, so that the others need not wait for it to
// expire. Draws that are still under way are safe for Options.Settle: so long nobody else takes over what was its own.
func (m *Members) Start(ctx context.Context) error {
	var following sync.WaitGroup
	following.Go(func() { m.alarm.follow(ctx, m.store, m.pause) })
	defer following.Wait()
	for news := (reports{}); ctx.Err() == nil; {
		timer := m.clock.NewTimer(m.interval())
		news.tell(ctx, m.round(ctx), m.Living())
		m.correspond(ctx, timer.C())
		timer.Stop()
	}
	m.leave(context.WithoutCancel(ctx))
	return nil
}

// round lists, draws the conclusions, and only then lets the others know of them.
func (m *Members) round(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, m.patience())
	defer cancel()
	leases, err := m.store.list(ctx)
	if err != nil {
		return err
	}
	before := m.view
	m.view = m.view.listed(leases, m.clock.Now(), m.terms)
	m.publish()
	for _, id := range m.view.stirred(before) {
		m.heard(id)
	}
	m.read(leases)
	return errors.Join(m.renew(ctx), m.bury(ctx))
}

// correspond writes whatever there is to say about borrowed addresses, until it is time for the next round. Without a list the
// replica learns nothing, and loses nothing by it: a letter is a renewal that comes early.
func (m *Members) correspond(ctx context.Context, until <-chan time.Time) {
	for m.alarm.wait(ctx, until) {
		if err := m.send(ctx); err != nil {
			return // the next round finds out, and tells
		}
	}
}

// interval is how long a round may wait: until it is time to renew, or to say that this replica serves.
func (m *Members) interval() time.Duration {
	if from := m.view.due(m.terms); !from.IsZero() && m.view.told.IsZero() {
		return min(m.terms.renew, max(from.Sub(m.clock.Now()), m.terms.renew/30))
	}
	return m.terms.renew
}

func (m *Members) send(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, m.patience())
	defer cancel()
	return m.renew(ctx)
}

// read takes in the letters of all others, which a watch may have missed, and drops what concerns those that went.
func (m *Members) read(leases []lease) {
	living := map[string]bool{}
	for _, l := range leases {
		living[l.id] = true
		m.letter(l)
	}
	m.lending.gone(living)
	m.silence.keep(living)
}

// blamed believes another replica, which asks for an address of which this one thought that a third one settles it: that one has not answered it. Unless
// it was heard of in that time.
func (m *Members) blamed(a netip.Addr) {
	rights := m.Rights()
	if len(rights.inLine) == 0 {
		return
	}
	if holder := rights.holder(a); holder != m.id {
		m.silence.asked(holder, m.clock.Now().Add(-answering))
	}
}

// heard takes note that a replica lives.
func (m *Members) heard(id string) {
	if id != m.id {
		m.silence.broken(id, m.clock.Now())
	}
}

// letter takes in what another replica's Lease says about borrowed addresses.
func (m *Members) letter(l lease) bool {
	return l.id != m.id && m.lending.received(l.id, l.version, l.lending)
}

// renew writes the own Lease if it is time to.
func (m *Members) renew(ctx context.Context) error {
	began := m.clock.Now()
	m.view.lending = m.lending.text()
	next, due := m.view.next(began, m.terms)
	if !due {
		return nil
	}
	write := m.store.update
	if next.uid == "" {
		write = m.store.create
		m.alarm.ring() // the next list tells whether we are alone
	}
	own, err := write(ctx, next)
	if err != nil {
		return err
	}
	now := m.clock.Now()
	m.view = m.view.written(own, began, now)
	m.lending.delivered(now)
	m.publish()
	return nil
}

// bury deletes the Leases of the dead. The API server refuses if they stirred after all. A replica that is without its Lease
// cannot renew it, and has to join anew.
func (m *Members) bury(ctx context.Context) error {
	var errs []error
	for _, l := range m.view.expired(m.clock.Now()) {
		if err := m.store.remove(ctx, l); err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			errs = append(errs, err)
			continue
		}
		m.alarm.ring()
	}
	return errors.Join(errs...)
}

// leave gives up the shard, then the Lease, in whatever version: the answer to the last renewal may be lost.
func (m *Members) leave(ctx context.Context) {
	m.resign()
	if m.view.own.uid == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, farewell)
	defer cancel()
	if err := m.store.remove(ctx, lease{id: m.id, uid: m.view.own.uid}); err != nil && !apierrors.IsNotFound(err) {
		logf.FromContext(ctx).Error(err, "The replica leaves its Lease behind; it expires by itself")
	}
}

// patience is how long one round may take: short enough to be tried again while the Lease still counts.
func (m *Members) patience() time.Duration { return m.terms.duration / 3 }

// pause lies between two attempts to open a watch.
func (m *Members) pause(ctx context.Context) {
	timer := m.clock.NewTimer(m.terms.renew)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C():
	}
}

// reports keep the log to what is new.
type reports struct {
	failing bool
	living  []string
}

func (r *reports) tell(ctx context.Context, err error, living []string) {
	log := logf.FromContext(ctx)
	switch failing := err != nil && ctx.Err() == nil; {
	case failing && !r.failing && !apierrors.IsConflict(err):
		log.Error(err, "The replica cannot keep its Lease; it asks before it hands out an address until it can")
		r.failing = true
	case !failing && r.failing:
		log.Info("The replica keeps its Lease again")
		r.failing = false
	}
	if !slices.Equal(r.living, living) {
		log.Info("Replicas have come or gone", "living", living)
		r.living = living
	}
}
