package allocator

// queue holds the cooling addresses of one family. It knows how many of them lie in an interval, and which of
// those has been cooling for longest. All of it is O(log n) expected; an address costs 64 bytes.
//
// It is a treap by address, in which every node knows the size and the earliest arrival of its subtree. A
// list in order of arrival would not do: the head of it may lie outside of the interval that is asked for,
// and so may any number of those behind it.
type queue struct {
	root *rester
	next uint64 // arrival of whoever comes next
}

// rester is a cooling address. A nil rester is an empty subtree.
type rester struct {
	addr        uint128
	arrival     uint64
	size        uint64 // of the subtree
	earliest    uint64 // arrival in the subtree
	weight      uint64 // no child is heavier than its parent
	left, right *rester
}

// push adds a behind all others. Whoever is there already keeps its place; push reports whether a is new.
func (q *queue) push(a uint128) bool {
	if q.contains(a) {
		return false
	}
	q.root = q.root.insert(&rester{addr: a, arrival: q.next, weight: scatter(q.next)})
	q.next++
	return true
}

// remove takes a out and reports whether it was there.
func (q *queue) remove(a uint128) bool {
	if !q.contains(a) {
		return false
	}
	q.root = q.root.remove(a)
	return true
}

func (q *queue) contains(a uint128) bool {
	r := q.root
	for r != nil && r.addr != a {
		r = r.towards(a)
	}
	return r != nil
}

// countIn returns the number of addresses in iv.
func (q *queue) countIn(iv interval) uint64 {
	n := q.root.rank(iv.last) - q.root.rank(iv.first)
	if q.contains(iv.last) {
		n++
	}
	return n
}

// takeOldest removes the address of the intervals that came first, and returns it. No interval starts at the
// very first address of the space: network addresses are never usable.
func (q *queue) takeOldest(list intervals) (a uint128, ok bool) {
	var oldest *rester
	for _, iv := range list {
		left, rest := q.root.split(iv.first.minus(1))
		middle, right := rest.split(iv.last)
		if r := middle.first(); r != nil && (oldest == nil || r.arrival < oldest.arrival) {
			oldest = r
		}
		q.root = join(left, join(middle, right))
	}
	if oldest == nil {
		return uint128{}, false
	}
	return oldest.addr, q.remove(oldest.addr)
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
	r.size, r.earliest = 1, r.arrival
	for _, child := range [...]*rester{r.left, r.right} {
		if child != nil {
			r.size += child.size
			r.earliest = min(r.earliest, child.earliest)
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

// first returns the one that came first in the subtree, nil if that is empty.
func (r *rester) first() *rester {
	for r != nil && r.arrival != r.earliest {
		if r.left != nil && r.left.earliest == r.earliest {
			r = r.left
		} else {
			r = r.right
		}
	}
	return r
}

func (r *rester) len() uint64 {
	if r == nil {
		return 0
	}
	return r.size
}

// scatter turns arrivals into weights that look random (the finalizer of splitmix64), so that the treap is
// balanced whatever the order of addresses, and the same in every run.
func scatter(n uint64) uint64 {
	n += 0x9e3779b97f4a7c15
	n = (n ^ n>>30) * 0xbf58476d1ce4e5b9
	n = (n ^ n>>27) * 0x94d049bb133111eb
	return n ^ n>>31
}
