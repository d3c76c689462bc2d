package allocator

import "math/bits"

const (
	// fan is the room of a node. 41 makes a leaf exactly 1 KiB, a size the runtime hands out without waste.
	// From 20 to 63 the speed hardly changes: more room saves levels and costs longer moves.
	fan = 41
	// least is what every node but the root holds at least.
	least = fan / 4
	// roomy is what two neighbours hold at most to become one: fuller ones share, so that a node that was just
	// made is neither about to split nor about to be joined again.
	roomy = 3 * fan / 4
)

// node is a node of an order-statistic B+tree over words of 64 addresses.
//
//	              key    0    7   12
//	              val    0   67   90           inner: how many addresses are to the left
//	           ┌─────────┘    │    └─────────┐
//	key  0   3   4     key  7   9     key  12  20  21
//	val  ▓   ▒   ░     val  ▒   ░     val   ▓   ░   ▒        leaf: which of the 64 addresses are members
//
// Running totals make counting a search, and they make a split or a join a matter of the two nodes and their
// parent. The price is a short loop over memory that is at hand anyway for every address that comes or goes.
type node struct {
	n     int         // entries in use
	total uint64      // addresses in the subtree
	kids  *[fan]*node // nil in a leaf
	list  [fan]entry  // in strictly ascending order of key
}

// entry is a word of a leaf or a kid of an inner node.
type entry struct {
	// key of a word is its address divided by 64. The key of a kid is at most that of its first word, and
	// greater than that of the last word of the kid before it.
	key uint128
	// val of a word is the mask of its members, never 0. The val of a kid is the number of addresses in the
	// kids before it.
	val uint64
}

func newInner() *node { return &node{kids: new([fan]*node)} }

func (n *node) isLeaf() bool { return n.kids == nil }

// through returns how many keys are at most key. The two ends are asked first: whoever counts in the only
// range there is asks for nothing else.
func (n *node) through(key uint128) int {
	switch {
	case n.n == 0 || key.less(n.list[0].key):
		return 0
	case n.n == 1 || key.less(n.list[1].key):
		return 1
	case !key.less(n.list[n.n-1].key):
		return n.n
	}
	low, size := 1, n.n-1 // the key at low is at most key; the answer is in (low, low+size]
	for size > 1 {
		half := size / 2
		if !key.less(n.list[low+half].key) {
			low += half
		}
		size -= half
	}
	return low + 1
}

// kid returns the index of the kid that has, or would have, the word with the given key.
func (n *node) kid(key uint128) int { return max(n.through(key)-1, 0) }

// word returns the index of the word with the given key in a leaf, or else where it would be inserted.
func (n *node) word(key uint128) (i int, ok bool) {
	// In a range that is well used, words follow one another without a gap: look there first.
	if i := key.lo - n.list[0].key.lo; i < uint64(n.n) && n.list[i].key == key {
		return int(i), true
	}
	i = n.through(key)
	if i > 0 && n.list[i-1].key == key {
		return i - 1, true
	}
	return i, false
}

// mask returns the members of the word with the given key.
func (n *node) mask(key uint128) uint64 {
	for !n.isLeaf() {
		n = n.kids[n.kid(key)]
	}
	if i, ok := n.word(key); ok {
		return n.list[i].val
	}
	return 0
}

// rank returns the number of addresses in words before key, plus those in key's word that are in within.
func (n *node) rank(key uint128, within uint64) (sum uint64) {
	for !n.isLeaf() {
		i := n.kid(key)
		sum += n.list[i].val
		n = n.kids[i]
	}
	i, ok := n.word(key)
	if ok {
		sum += count(n.list[i].val & within)
	}
	return sum + n.before(i)
}

// before returns the number of addresses in the entries to the left of i; i may be n.n.
func (n *node) before(i int) uint64 {
	switch {
	case i == n.n:
		return n.total
	case !n.isLeaf():
		return n.list[i].val
	case i > n.n/2: // the shorter side is counted
		return n.total - population(n.list[i:n.n])
	default:
		return population(n.list[:i])
	}
}

// nthFree returns the address that is not in the tree and has exactly r such addresses before it, in all of
// the space. Without members that would be r; the way down pushes r past the members to the left of it.
func (n *node) nthFree(r uint128) uint128 {
	for !n.isLeaf() {
		i := n.kidOfFree(r)
		r = r.plus(n.list[i].val)
		n = n.kids[i]
	}
	if n.n == 0 || r.less(n.list[0].key.base()) {
		return r
	}
	i, r := n.wordOfFree(r)
	base, mask := n.list[i].key.base(), n.list[i].val
	if k := r.sub(base); k.hi == 0 && k.lo < wordSize-count(mask) {
		return base.plus(nthZero(mask, k.lo))
	}
	return r.plus(count(mask)) // behind the word
}

// kidOfFree returns the last kid before whose key there are at most r free addresses, or the first one.
func (n *node) kidOfFree(r uint128) int {
	low, size := 0, n.n
	for size > 1 {
		half := size / 2
		next := &n.list[low+half]
		low += half &^ r.plus(next.val).lessMask(next.key.base())
		size -= half
	}
	return low
}

// wordOfFree is kidOfFree for a leaf, whose words know no totals: it passes over them, eight at a time as long
// as it can. It returns r pushed past the words to the left of i.
func (n *node) wordOfFree(r uint128) (i int, pushed uint128) {
	const stride = 8
	for i+stride < n.n {
		next := r.plus(population(n.list[i : i+stride]))
		if next.less(n.list[i+stride].key.base()) {
			break
		}
		i, r = i+stride, next
	}
	for i+1 < n.n {
		next := r.plus(count(n.list[i].val))
		if next.less(n.list[i+1].key.base()) {
			break
		}
		i, r = i+1, next
	}
	return i, r
}

// insert adds the bit of an address to the word with the given key, and reports whether it is new. If the node
// had to split, its new right neighbour is returned for the parent to adopt.
func (n *node) insert(key uint128, bit uint64) (added bool, right *node) {
	if n.isLeaf() {
		return n.insertBit(key, bit)
	}
	i := n.kid(key)
	added, right = n.kids[i].insert(key, bit)
	if added {
		right = n.gained(i, key, right)
	}
	return added, right
}

// take inserts the address that nthFree returns, and returns it. It is a walk less than finding first.
func (n *node) take(r uint128) (a uint128, right *node) {
	if n.isLeaf() {
		a = n.nthFree(r)
		key, bit := a.word()
		_, right = n.insertBit(key, 1<<bit)
		return a, right
	}
	i := n.kidOfFree(r)
	a, right = n.kids[i].take(r.plus(n.list[i].val))
	key, _ := a.word()
	return a, n.gained(i, key, right)
}

// gained notes that kid i has one address more, in the word with the given key, and may have had to split.
func (n *node) gained(i int, key uint128, split *node) (right *node) {
	if key.less(n.list[i].key) { // only ever true of the first kid
		n.list[i].key = key
	}
	n.total++
	n.lift(i+1, n.n, 1)
	if split == nil {
		return nil
	}
	return n.adopt(i+1, split)
}

func (n *node) insertBit(key uint128, bit uint64) (added bool, right *node) {
	i, ok := n.word(key)
	if ok && n.list[i].val&bit != 0 {
		return false, nil
	}
	if ok {
		n.list[i].val |= bit
		n.total++
		return true, nil
	}
	home, i, right := n.roomAt(i)
	home.open(i)
	home.list[i] = entry{key, bit}
	home.total++
	return true, right
}

// adopt takes kid, which was split off kid i-1, as kid i. The totals to the right of it stay what they are.
func (n *node) adopt(i int, kid *node) (right *node) {
	left := n.list[i-1].val + n.kids[i-1].total
	home, i, right := n.roomAt(i)
	if home == right {
		left -= n.total
	}
	home.open(i)
	home.list[i], home.kids[i] = entry{kid.list[0].key, left}, kid
	return right
}

// delete takes the bit of an address out of the word with the given key, and reports whether it was there.
func (n *node) delete(key uint128, bit uint64) (removed bool) {
	if n.isLeaf() {
		return n.deleteBit(key, bit)
	}
	i := n.kid(key)
	kid := n.kids[i]
	if !kid.delete(key, bit) {
		return false
	}
	n.total--
	n.lift(i+1, n.n, ^uint64(0))
	if kid.n < least {
		n.rebalance(max(i-1, 0))
	}
	return true
}

func (n *node) deleteBit(key uint128, bit uint64) (removed bool) {
	i, ok := n.word(key)
	if !ok || n.list[i].val&bit == 0 {
		return false
	}
	n.total--
	n.list[i].val &^= bit
	if n.list[i].val == 0 {
		n.close(i)
	}
	return true
}

// walk calls yield for the members in iv in ascending order until it returns false, which walk then returns.
func (n *node) walk(iv interval, yield func(uint128) bool) bool {
	first, _ := iv.first.word()
	last, _ := iv.last.word()
	for i := n.kid(first); i < n.n && !last.less(n.list[i].key); i++ {
		if n.isLeaf() && !walkWord(n.list[i], iv, yield) {
			return false
		}
		if !n.isLeaf() && !n.kids[i].walk(iv, yield) {
			return false
		}
	}
	return true
}

func walkWord(e entry, iv interval, yield func(uint128) bool) bool {
	for base, mask := e.key.base(), e.val; mask != 0; mask &= mask - 1 {
		a := base.plus(uint64(bits.TrailingZeros64(mask)))
		if !a.less(iv.first) && !iv.last.less(a) && !yield(a) {
			return false
		}
	}
	return true
}
