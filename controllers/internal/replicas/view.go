package replicas

import (
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// terms are the times of the protocol, the same for all replicas of a release.
type terms struct {
	duration, renew, settle time.Duration
}

// margin is what clocks may differ in: a replica trusts its own Lease this much shorter than it is, and those of others this
// much longer. With a fifth on both sides a clock may run half as fast again as another.
func margin(duration time.Duration) time.Duration { return duration / 5 }

// view is what a replica knows of all replicas, as of its latest list of Leases. It is a value: its methods return another one.
// Times are of the replica's own clock. See the package comment for why it is safe.
type view struct {
	me string
	// own is the Lease that the replica holds, the zero lease without one.
	own lease
	// acknowledged is when the last write of own began that the API server has confirmed.
	acknowledged time.Time
	// told is when a write of own was first confirmed that says that the replica serves.
	told time.Time
	// heard is when the latest list came.
	heard time.Time
	// admitted is when a list has first shown that every other Lease knows own.
	admitted time.Time
	// peers are the others by the UID of their Lease, those that went lately included.
	peers map[types.UID]peer
	// lending is what the own Lease is to say about borrowed addresses.
	lending string
}

// peer is another replica.
type peer struct {
	lease
	// seen is when its Lease was first seen in this version.
	seen time.Time
	// gone is when its Lease was first missed; zero as long as it is there.
	gone time.Time
}

// listed returns the view after a list of all Leases that was complete at now.
func (v view) listed(leases []lease, now time.Time, t terms) view {
	v = v.holding(v.ownIn(leases))
	peers := v.present(leases, now, t)
	for uid, p := range v.peers {
		if _, there := peers[uid]; there {
			continue
		}
		if p.gone.IsZero() {
			p.gone = now
		}
		if now.Sub(p.gone) < t.settle {
			peers[uid] = p
		}
	}
	v.peers, v.heard = peers, now
	if v.admitted.IsZero() && v.own.uid != "" && v.knownToAll() {
		v.admitted = now
	}
	return v
}

// stirred are those whose Leases have changed since a view before.
func (v view) stirred(before view) (ids []string) {
	for uid, p := range v.peers {
		if last, known := before.peers[uid]; known && p.version != last.version {
			ids = append(ids, p.id)
		}
	}
	return ids
}

// ownIn finds the own Lease in a list; the zero lease if it is not there: others have counted this replica out.
func (v view) ownIn(leases []lease) lease {
	if i := slices.IndexFunc(leases, func(l lease) bool { return l.id == v.me }); i >= 0 {
		return leases[i]
	}
	return lease{}
}

// holding returns the view with this own Lease. Another Lease than before gives no standing, even if it is but the echo of a write
// that was believed to be lost.
func (v view) holding(own lease) view {
	if own.uid != v.own.uid {
		v.acknowledged, v.admitted, v.told = time.Time{}, time.Time{}, time.Time{}
	}
	v.own = own
	return v
}

// present are the others in a list. Their silence counts as long as this replica listens: after the API server was away for all, nobody
// is to be counted out before he had time to be heard.
func (v view) present(leases []lease, now time.Time, t terms) map[types.UID]peer {
	listened := now.Sub(v.heard) < t.duration/2
	peers := make(map[types.UID]peer, len(leases))
	for _, l := range leases {
		if l.id == v.me {
			continue
		}
		p := peer{lease: l, seen: now}
		before, known := v.peers[l.uid]
		if known && listened && before.version == l.version {
			p.seen = before.seen
		}
		peers[l.uid] = p
	}
	return peers
}

// knownToAll reports whether every other Lease knows the own one.
func (v view) knownToAll() bool {
	for _, p := range v.peers {
		if p.gone.IsZero() && !slices.Contains(p.knows, v.own.uid) {
			return false
		}
	}
	return true
}

// next is the own Lease as it has to be written, and whether it is time to. The version and UID are those to be replaced, none
// for one that has to be created.
func (v view) next(now time.Time, t terms) (lease, bool) {
	l := lease{
		id: v.me, uid: v.own.uid, version: v.own.version, duration: t.duration, knows: v.knows(), lending: v.lending, serves: v.serves(now, t),
	}
	due := v.own.uid == "" || now.Sub(v.acknowledged) >= t.renew || l.serves != v.own.serves || l.lending != v.own.lending ||
		!slices.Equal(l.knows, v.own.knows)
	return l, due
}

// written returns the view after the API server has confirmed at now a write of the own Lease that began at the time. A write that has not
// changed the version was none: the others cannot see it.
func (v view) written(own lease, began, now time.Time) view {
	if own.uid == v.own.uid && own.version == v.own.version {
		return v
	}
	v = v.holding(own)
	v.acknowledged = began
	if own.serves && v.told.IsZero() {
		v.told = now
	}
	return v
}

// knows are the UIDs of the Leases that are there, in order.
func (v view) knows() []types.UID {
	var uids []types.UID
	for uid, p := range v.peers {
		if p.gone.IsZero() {
			uids = append(uids, uid)
		}
	}
	slices.Sort(uids)
	return uids
}

// expired are the others whose Lease was not renewed for so long that its holder does not count on it any more.
func (v view) expired(now time.Time) []lease {
	var dead []lease
	for _, p := range v.peers {
		if p.gone.IsZero() && now.Sub(p.seen) >= p.duration+margin(p.duration) {
			dead = append(dead, p.lease)
		}
	}
	return dead
}

// quiet is when those whose Leases are there will have missed three renewals, if nothing is heard of them until then. A busy machine
// delays a renewal, or the list that shows it, by more than one.
func (v view) quiet(t terms) time.Time {
	var last time.Time
	for _, p := range v.peers {
		if until := p.seen.Add(7 * t.renew / 2); p.gone.IsZero() && until.After(last) {
			last = until
		}
	}
	return last
}

// handover is how long before it is sure a replica says that it serves. Its heirs stop claiming what will be its own when they hear it, and it begins to
// claim that a moment later. It is also how long after a replica has gone its heirs begin: what it drew last is on its way.
const handover = time.Second

// serves reports whether the Lease has to say that its holder serves.
func (v view) serves(now time.Time, t terms) bool {
	from := v.due(t)
	return !from.IsZero() && !now.Before(from)
}

// due is when the Lease has to say that its holder serves; the zero time without an end to its waiting.
func (v view) due(t terms) time.Time {
	if v.admitted.IsZero() {
		return time.Time{}
	}
	return v.admitted.Add(max(t.settle-handover, 0))
}

// mates are the others by their names. Of one that has come back with another Lease that one counts. Who is dead is judged by the latest list: while this
// replica hears nothing, it knows nothing.
func (v view) mates(t terms) map[string]mate {
	out := map[string]mate{}
	for _, p := range v.peers {
		m := mate{serves: p.serves, dead: v.heard.Sub(p.seen) >= 7*t.renew/3, gone: p.gone}
		if other, twice := out[p.id]; !twice || !other.gone.IsZero() {
			out[p.id] = m
		}
	}
	return out
}

// living are the replicas whose Leases are there, the own one included, in order.
func (v view) living() []string {
	return v.names(func(p peer) bool { return p.gone.IsZero() })
}

// reckoned are the replicas among whom the addresses are divided: the living, and those that went lately, in order.
func (v view) reckoned() []string {
	return v.names(func(peer) bool { return true })
}

func (v view) names(which func(peer) bool) []string {
	names := map[string]bool{v.me: true}
	for _, p := range v.peers {
		if which(p) {
			names[p.id] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// sure is the span of time in which the replica may draw from its shard without asking; both zero if there is none. Its heirs have had time to hear that it
// serves.
func (v view) sure(t terms) (from, until time.Time) {
	if v.own.uid == "" || v.admitted.IsZero() || v.acknowledged.IsZero() {
		return time.Time{}, time.Time{}
	}
	if v.told.IsZero() {
		return time.Time{}, time.Time{}
	}
	from = v.admitted.Add(t.settle)
	if heard := v.told.Add(handover); heard.After(from) {
		from = heard
	}
	return from, v.acknowledged.Add(t.duration - margin(t.duration))
}
