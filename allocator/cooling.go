package allocator

import (
	"math"
	"time"
)

// queue holds the cooling addresses of one family. It knows how many of them lie in an interval, and which of
// those has been cooling for longest. All of it is O(log n) expected; an address costs 64 bytes.
//
// It is a treap by address, in which every node knows the size and the earliest one of its subtree. A list in
// order of time would not do: the head of it may lie outside of the intervals that are asked for, and so may any
// number of those behind it.
type queue struct {
	root   *rester
	births uint64 // how many have ever come
}

// rester is a cooling address. A nil rester is an empty subtree.
type rester struct {
	addr        uint128
	since       int64   // when it began to cool
	size        uint64  // of the subtree
	earliest    *rester // of the subtree
	weight      uint64  // no child is heavier than its parent
	left, right *rester
}

// put adds a, or moves it to another time.
func (q *queue) put(a uint128, since int64) {
	if r := q.find(a); r != nil && r.since == since {
		return
	}
	q.remove(a)
	q.root = q.root.insert(&rester{addr: a, since: since, weight: scatter(q.births)})
	q.births++
}

// remove takes a out and reports whether it was there.
func (q *queue) remove(a uint128) bool {
	if !q.contains(a) {
		return false
	}
	q.root = q.root.remove(a)
	return true
}

func (q *queue) contains(a uint128) bool { return q.find(a) != nil }

// find returns the place of a, nil if it is not there.
func (q *queue) find(a uint128) *rester {
	r := q.root
	for r != nil && r.addr != a {
		r = r.towards(a)
	}
	return r
}

// countIn returns the number of addresses in iv.
func (q *queue) countIn(iv interval) uint64 {
	n := q.root.rank(iv.last) - q.root.rank(iv.first)
	if q.contains(iv.last) {
		n++
	}
	return n
}

// oldest returns the one of the normal list that has been cooling for longest, unless best has for even longer.
func (q *queue) oldest(list intervals, best *rester) *rester {
	return q.root.oldest(list, interval{uint128{}, ones(128)}, best)
}

// oldest is that of queue for a subtree, all addresses of which lie in the bounds. It passes over whatever has
// nothing to do with the list or is not old enough, and does not descend into what lies wholly in the list.
func (r *rester) oldest(list intervals, bounds interval, best *rester) *rester {
	if r == nil || !r.earliest.before(best) {
		return best
	}
	list = list.near(bounds)
	if len(list) == 0 {
		return best
	}
	if list[0].covers(bounds) {
		return r.earliest
	}
	if r.before(best) && len(list.near(interval{r.addr, r.addr})) > 0 {
		best = r
	}
	lower, upper := interval{bounds.first, r.addr.minus(1)}, interval{r.addr.plus(1), bounds.last}
	if r.right != nil && r.right.earliest == r.earliest { // whoever may be the oldest first, to pass over more
		best = r.right.oldest(list, upper, best)
		return r.left.oldest(list, lower, best)
	}
	best = r.left.oldest(list, lower, best)
	return r.right.oldest(list, upper, best)
}

// before reports whether r has been cooling for longer than o; of two that began at once, the lower address has.
// Everybody has been cooling for longer than nil.
func (r *rester) before(o *rester) bool {
	return o == nil || r.since < o.since || r.since == o.since && r.addr.less(o.addr)
}

func (r *rester) insert(fresh *rester) *rester {
	switch {
	case r == nil || fresh.weight > r.weight:
		fresh.left, fresh.right = r.split(fresh.addr)
		return fresh.update()
	case fresh.addr.less(r.addr):
		r.left = r.left.insert(fresh)
	default:
		r.right = r.right.insert(fresh)
	}
	return r.update()
}

func (r *rester) remove(a uint128) *rester {
	switch {
	case r.addr == a:
		return join(r.left, r.right)
	case a.less(r.addr):
		r.left = r.left.remove(a)
	default:
		r.right = r.right.remove(a)
	}
	return r.update()
}

// split parts the subtree into the addresses up to and including a, and those behind.
func (r *rester) split(a uint128) (upTo, behind *rester) {
	if r == nil {
		return nil, nil
	}
	if a.less(r.addr) {
		upTo, r.left = r.left.split(a)
		return upTo, r.update()
	}
	r.right, behind = r.right.split(a)
	return r.update(), behind
}

// join is the inverse of split.
func join(left, right *rester) *rester {
	switch {
	case left == nil:
		return right
	case right == nil:
		return left
	case left.weight > right.weight:
		left.right = join(left.right, right)
		return left.update()
	default:
		right.left = join(left, right.left)
		return right.update()
	}
}

// update computes what r says about its subtree from its children.
func (r *rester) update() *rester {
	r.size, r.earliest = 1, r
	for _, child := range [...]*rester{r.left, r.right} {
		if child != nil {
			r.size += child.size
			if child.earliest.before(r.earliest) {
				r.earliest = child.earliest
			}
		}
	}
	return r
}

// rank returns the number of addresses before a.
func (r *rester) rank(a uint128) (n uint64) {
	for ; r != nil; r = r.towards(a) {
		if r.addr.less(a) {
			n += r.size - r.right.len()
		}
	}
	return n
}

// towards returns the child on whose side a is.
func (r *rester) towards(a uint128) *rester {
	if r.addr.less(a) {
		return r.right
	}
	return r.left
}

func (r *rester) len() uint64 {
	if r == nil {
		return 0
	}
	return r.size
}

// moment returns t in nanoseconds since 1970. What lies beyond the years 1678 to 2262 is as early, or as late, as
// they are; the zero Time is earlier than all others.
func moment(t time.Time) int64 {
	switch s := t.Unix(); {
	case s <= math.MinInt64/int64(time.Second):
		return math.MinInt64
	case s >= math.MaxInt64/int64(time.Second):
		return math.MaxInt64
	default:
		return t.UnixNano()
	}
}

// scatter turns numbers into others that look random (the finalizer of splitmix64): as weights of those that come
// one after the other, so that the treap is balanced whatever the order of addresses, and the same in every run.
func scatter(n uint64) uint64 {
	n += 0x9e3779b97f4a7c15
	n = (n ^ n>>30) * 0xbf58476d1ce4e5b9
	n = (n ^ n>>27) * 0x94d049bb133111eb
	return n ^ n>>31
}
