package allocator

// roomAt splits the node if it is full. It returns the node and the place where what was meant for place i
// belongs now, and the new right neighbour, if any.
func (n *node) roomAt(i int) (home *node, at int, right *node) {
	if n.n < fan {
		return n, i, nil
	}
	right = n.split(i)
	if i > n.n {
		return right, i - n.n, right
	}
	return n, i, right
}

// split moves the upper part of a full node to a new right neighbour. Where i, the place that is about to be
// filled, is the end, little moves: addresses often come in ascending order, and so nodes stay well filled.
func (n *node) split(i int) *node {
	right := &node{}
	if !n.isLeaf() {
		right = newInner()
	}
	moved := fan / 2
	if i == fan {
		moved = least
	}
	right.takeFromEnd(n, moved)
	return right
}

// rebalance makes one node of the kids i and i+1, or lets them share evenly. One of them has become too small.
func (n *node) rebalance(i int) {
	left, right := n.kids[i], n.kids[i+1]
	switch both := left.n + right.n; {
	case both <= roomy:
		left.takeFromStart(right, right.n)
		n.close(i + 1)
		return
	case left.n < right.n:
		left.takeFromStart(right, both/2-left.n)
	default:
		right.takeFromEnd(left, both/2-right.n)
	}
	n.list[i+1] = entry{right.list[0].key, n.list[i].val + left.total}
}

// takeFromEnd moves the last k entries of the left neighbour to the start of n.
func (n *node) takeFromEnd(left *node, k int) {
	from := left.n - k
	stay := left.before(from)
	moved := left.total - stay
	n.lift(0, n.n, moved)
	n.moveWithin(k, 0)
	n.copyFrom(left, from, k, 0)
	n.lift(0, k, -stay)
	n.n, n.total = n.n+k, n.total+moved
	left.shrink(from)
	left.total = stay
}

// takeFromStart moves the first k entries of the right neighbour to the end of n.
func (n *node) takeFromStart(right *node, k int) {
	moved := right.before(k)
	n.copyFrom(right, 0, k, n.n)
	n.lift(n.n, n.n+k, n.total)
	n.n, n.total = n.n+k, n.total+moved
	right.lift(k, right.n, -moved)
	right.moveWithin(0, k)
	right.shrink(right.n - k)
	right.total -= moved
}

// lift adds d to the running totals of the kids i to j-1; adding -d takes d away. Words have no totals.
func (n *node) lift(i, j int, d uint64) {
	if n.isLeaf() {
		return
	}
	list := n.list[i:j]
	for i := range list {
		list[i].val += d
	}
}

// open makes room for one entry at i.
func (n *node) open(i int) {
	n.moveWithin(i+1, i)
	n.n++
}

// close removes entry i.
func (n *node) close(i int) {
	n.moveWithin(i, i+1)
	n.shrink(n.n - 1)
}

// moveWithin moves the entries from src on to dst; n.n stays as it is.
func (n *node) moveWithin(dst, src int) {
	copy(n.list[dst:], n.list[src:n.n])
	if !n.isLeaf() {
		copy(n.kids[dst:], n.kids[src:n.n])
	}
}

// copyFrom copies k entries of o, from src on, to dst.
func (n *node) copyFrom(o *node, src, k, dst int) {
	copy(n.list[dst:], o.list[src:src+k])
	if !n.isLeaf() {
		copy(n.kids[dst:], o.kids[src:src+k])
	}
}

// shrink drops the entries from size on, so that nothing keeps their kids alive.
func (n *node) shrink(size int) {
	if !n.isLeaf() {
		clear(n.kids[size:n.n])
	}
	n.n = size
}
