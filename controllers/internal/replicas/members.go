package replicas

import (
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"

	"github.com/clusterip-operator/clusterip-operator/allocator"
)

// Members is this replica among the others. Make one with New and give it to the manager, which starts it on every replica; all
// methods are safe for concurrent use, and those that are asked for each address cost a few loads.
type Members struct {
	id      string
	store   store
	clock   clock.Clock
	terms   terms
	alarm   *alarm
	lending *lending
	silence silence
	divided atomic.Pointer[division]

	current atomic.Pointer[standing]
	// joined is true once the replica has been sure.
	joined atomic.Bool
	// view belongs to the loop.
	view view
}

// New returns a replica that has not joined yet. It reaches nobody before Start.
func New(o Options) *Members {
	o = o.withDefaults()
	return newMembers(uniqueID(o.Identity), server{client: o.Client, namespace: o.Namespace, clock: o.Clock}, o)
}

func newMembers(id string, at store, o Options) *Members {
	m := &Members{
		id: id, store: at, clock: o.Clock, alarm: newAlarm(),
		terms: terms{duration: o.Duration, renew: o.Renew, settle: o.Settle},
		view:  view{me: id},
	}
	m.lending = newLending(id, o.Lend, func(a netip.Addr) Grant { return m.Rights().Of(a) })
	m.lending.blamed = m.blamed
	m.alarm.letters, m.alarm.heard = m.letter, m.heard
	m.publish()
	return m
}

// ID is this replica's name among the others: the identity, made fit for an object's name, and unique for this process.
func (m *Members) ID() string { return m.id }

// Shard returns the addresses that are this replica's. When it is sure, no other replica draws from them without asking, and none has done
// so for as long as Options.Settle; the answer holds for a draw that begins now and reaches the API server within the time-out
// of the webhook. When it is not sure, the shard is what it will probably be: somebody else may own a part of it.
func (m *Members) Shard() (s allocator.Shard, sure bool) {
	current := m.current.Load()
	return current.shard, current.sure(m.clock.Now())
}

// Joined reports whether this replica has ever been sure of its shard: from then on it can serve as the others do. It takes Options.Settle
// from the start, and up to a Lease's life more if a replica has died just before. It stays true while the API server is away.
func (m *Members) Joined() bool {
	if m.joined.Load() {
		return true
	}
	if _, sure := m.Shard(); !sure {
		return false
	}
	m.joined.Store(true)
	return true
}

// Alone reports whether this replica has its Lease and hears of no other one: there is none, or those that there were have missed some renewals.
// That proves nothing, as they may only be slow; it says that there is nobody to wait for, or to ask.
func (m *Members) Alone() bool {
	current := m.current.Load()
	return current.written && !m.clock.Now().Before(current.quiet)
}

// Living returns the names of the replicas whose Leases are there, sorted, this one included.
func (m *Members) Living() []string { return slices.Clone(m.current.Load().living) }

// NeedLeaderElection is false: every replica serves.
func (m *Members) NeedLeaderElection() bool { return false }

// publish tells those who draw what the view says. What the view lost must be published before anybody else can read it in the Lease.
func (m *Members) publish() {
	next := standingOf(m.view, m.terms)
	if before := m.current.Load(); before != nil && slices.Equal(before.reckoned, next.reckoned) {
		next.shard = before.shard
	} else {
		next.shard = allocator.NewShard(next.reckoned, m.id)
	}
	m.current.Store(next)
	m.Joined() // nobody may have asked while it was so
}

// resign gives up the shard at once.
func (m *Members) resign() {
	next := *m.current.Load()
	next.from, next.until, next.steps, next.written = time.Time{}, time.Time{}, time.Time{}, false
	m.current.Store(&next)
}
