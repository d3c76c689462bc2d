package allocator

import (
	"cmp"
	"slices"
	"time"
)

// queue holds the cooling addresses of one family. It knows how many of them lie in an interval, and which of those in some tiers has been
// cooling for longest.
//
// Where many come in any order, as after a start, the list is sorted when somebody asks for the oldest. Later they come nearly in order, and
// find their place near the end. Whoever goes stays in the list until that is half stale.
type queue struct {
	members set
	since   map[uint128]time.Time // when each of the members began to cool
	list    []cooler              // all of them, and some that have gone
	sorted  bool
}

// nearEnd is how many places from the end of the list an address is inserted at the most.
const nearEnd = 1000

// cooler is an address that began to cool at some time.
type cooler struct {
	addr  uint128
	since time.Time
}

// compare puts first what has been cooling for longer, and of two that began at once the lower address.
func (c cooler) compare(o cooler) int {
	return cmp.Or(c.since.Compare(o.since), c.addr.compare(o.addr))
}

// put adds a, or moves it to another time.
func (q *queue) put(a uint128, since time.Time) {
	since = since.Round(0) // times of the monotonic clock and others have no common order
	if known, ok := q.since[a]; ok && known.Equal(since) {
		return
	}
	if q.since == nil {
		q.since = map[uint128]time.Time{}
	}
	q.remove(a)
	q.members.insert(a)
	q.since[a] = since
	c, at := cooler{a, since}, len(q.list)
	if q.sorted {
		at, _ = slices.BinarySearchFunc(q.list, c, cooler.compare)
	}
	if len(q.list)-at > nearEnd {
		at, q.sorted = len(q.list), false
	}
	q.list = slices.Insert(q.list, at, c)
}

// remove takes a out and reports whether it was there.
func (q *queue) remove(a uint128) bool {
	if !q.members.delete(a) {
		return false
	}
	delete(q.since, a)
	if len(q.list) > 2*len(q.since) {
		q.list = slices.DeleteFunc(q.list, q.stale)
	}
	return true
}

// stale reports whether c has gone, or has another time now.
func (q *queue) stale(c cooler) bool {
	since, ok := q.since[c.addr]
	return !ok || !since.Equal(c.since)
}

// oldest returns the address of the tiers that has been cooling for longest.
func (q *queue) oldest(tiers []*Tier) (a uint128, ok bool) {
	if !q.sorted {
		slices.SortFunc(q.list, cooler.compare)
		q.sorted = true
	}
	for len(q.list) > 0 && q.stale(q.list[0]) {
		q.list = q.list[1:]
	}
	i := slices.IndexFunc(q.list, func(c cooler) bool {
		return slices.ContainsFunc(tiers, func(t *Tier) bool { return t.has(c.addr) }) && !q.stale(c)
	})
	if i < 0 {
		return uint128{}, false
	}
	return q.list[i].addr, true
}
