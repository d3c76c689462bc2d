package allocator

import "time"

// queue holds the cooling addresses of one family. It knows how many of them lie in an interval,
// and which one of some tiers has been cooling for longest.
type queue struct {
	members set
	ages    aging
}

// put adds a, or gives it another time.
func (q *queue) put(a uint128, since time.Time) {
	since = since.Round(0) // times of the monotonic clock and others have no common order
	if known := q.ages.find(a); known != nil && known.since.Equal(since) {
		return
	}
	q.members.insert(a)
	q.ages.put(a, since)
}

// remove takes a out and reports whether it was there.
func (q *queue) remove(a uint128) bool { return q.members.delete(a) && q.ages.remove(a) }

// oldest returns the address of the tiers that has been cooling for longest.
func (q *queue) oldest(tiers []*Tier) (a uint128, ok bool) {
	if t := q.ages.oldestIn(tiers); t != nil {
		return t.addr, true
	}
	return uint128{}, false
}
