package allocator

import (
	"cmp"
	"math/rand/v2"
	"net/netip"
	"sort"
	"time"
)

// Ages holds addresses, each with the time since which it has been there, and finds the one of some
// tiers that has been there longest. The zero Ages is empty and ready. It is not safe for
// concurrent use.
//
// A call costs the logarithm of the number of addresses, OldestIn at most that per run of tiers.
type Ages struct{ four, six aging }

// Put adds a, or gives it another time. All times must be of one clock.
func (g *Ages) Put(a netip.Addr, since time.Time) {
	if plain(a) {
		g.of(FamilyOf(a)).put(numberOf(a), since)
	}
}

// Remove takes a out and reports whether it was there.
func (g *Ages) Remove(a netip.Addr) bool { return plain(a) && g.of(FamilyOf(a)).remove(numberOf(a)) }

// Since returns the time since which a has been there; false if it is not there.
func (g *Ages) Since(a netip.Addr) (time.Time, bool) {
	if !plain(a) {
		return time.Time{}, false
	}
	if at := g.of(FamilyOf(a)).find(numberOf(a)); at != nil {
		return at.since, true
	}
	return time.Time{}, false
}

// Len is the number of addresses.
func (g *Ages) Len() int { return g.four.n + g.six.n }

// Oldest returns the address of either family that has been there longest; false if there is none.
func (g *Ages) Oldest() (a netip.Addr, since time.Time, ok bool) {
	four, six := g.four.oldest(), g.six.oldest()
	if four != nil && (six == nil || !six.since.Before(four.since)) {
		return four.addr.addr(IPv4), four.since, true
	}
	return six.result(IPv6)
}

// OldestIn returns the address of the tiers that has been there longest, the lower one if two have
// the same time; false if no tier contains any of the addresses.
func (g *Ages) OldestIn(tiers []*Tier) (a netip.Addr, since time.Time, ok bool) {
	f, err := Request{Tiers: tiers}.family()
	if err != nil {
		return netip.Addr{}, time.Time{}, false
	}
	return g.of(f).oldestIn(tiers).result(f)
}

func (g *Ages) of(f Family) *aging {
	if f == IPv4 {
		return &g.four
	}
	return &g.six
}

// aging is Ages for one family: a treap, that is a search tree by address which random weights keep
// flat. Every node knows the oldest node of its subtree.
type aging struct {
	root *aged
	n    int
}

// aged is a node of the tree and the root of its subtree; nil is the empty tree.
type aged struct {
	addr        uint128
	since       time.Time
	weight      uint32 // greater than those of left and right
	left, right *aged
	oldest      *aged // of the node and all below it
}

func (g *aging) put(a uint128, since time.Time) {
	g.remove(a)
	g.n++
	g.root = g.root.insert(&aged{addr: a, since: since, weight: rand.Uint32()})
}

func (g *aging) remove(a uint128) bool {
	if g.find(a) == nil {
		return false
	}
	g.n--
	g.root = g.root.without(a)
	return true
}

func (g *aging) find(a uint128) *aged {
	t := g.root
	for t != nil && t.addr != a {
		if a.less(t.addr) {
			t = t.left
		} else {
			t = t.right
		}
	}
	return t
}

// oldest returns the node that has been there longest, nil if there is none.
func (g *aging) oldest() *aged {
	if g.root == nil {
		return nil
	}
	return g.root.oldest
}

// oldestIn returns the node of the tiers that has been there longest.
func (g *aging) oldestIn(tiers []*Tier) (best *aged) {
	for _, t := range tiers {
		best = g.root.search(t.runs(), interval{uint128{}, ones(128)}, best)
	}
	return best
}

// before reports whether t has been there longer than o, or as long and has the lower address.
// Every node is before nil.
func (t *aged) before(o *aged) bool {
	return o == nil || cmp.Or(t.since.Compare(o.since), t.addr.compare(o.addr)) < 0
}

// search returns the oldest of best and the nodes of the tree whose addresses are in list. The
// addresses of all nodes lie within the given interval. It descends only where a run begins or
// ends, and only into subtrees with a node older than best.
func (t *aged) search(list intervals, within interval, best *aged) *aged {
	if t == nil || len(list) == 0 || !t.oldest.before(best) {
		return best
	}
	if !within.first.less(list[0].first) && !list[0].last.less(within.last) {
		return t.oldest
	}
	i := sort.Search(len(list), func(i int) bool { return !list[i].last.less(t.addr) })
	below, above := list[:i], list[i:]
	if i < len(list) && !t.addr.less(list[i].first) && t.before(best) {
		best = t
	}
	if i < len(list) && list[i].first.less(t.addr) {
		below = list[:i+1]
	}
	if i < len(list) && list[i].last == t.addr {
		above = list[i+1:]
	}
	best = t.left.search(below, interval{within.first, t.addr.minus(1)}, best)
	return t.right.search(above, interval{t.addr.plus(1), within.last}, best)
}

func (t *aged) result(f Family) (netip.Addr, time.Time, bool) {
	if t == nil {
		return netip.Addr{}, time.Time{}, false
	}
	return t.addr.addr(f), t.since, true
}

// insert returns the tree with n added; its address must not be in the tree.
func (t *aged) insert(n *aged) *aged {
	switch {
	case t == nil:
		return n.updated()
	case t.weight < n.weight:
		n.left, n.right = t.split(n.addr)
		return n.updated()
	case n.addr.less(t.addr):
		t.left = t.left.insert(n)
	default:
		t.right = t.right.insert(n)
	}
	return t.updated()
}

// split returns two trees: the nodes below a, and those above.
func (t *aged) split(a uint128) (below, above *aged) {
	switch {
	case t == nil:
		return nil, nil
	case t.addr.less(a):
		t.right, above = t.right.split(a)
		return t.updated(), above
	default:
		below, t.left = t.left.split(a)
		return below, t.updated()
	}
}

// without returns the tree without the node of a, which must be there.
func (t *aged) without(a uint128) *aged {
	switch {
	case t.addr == a:
		return t.left.join(t.right)
	case a.less(t.addr):
		t.left = t.left.without(a)
	default:
		t.right = t.right.without(a)
	}
	return t.updated()
}

// join returns one tree of t and above; all addresses of t must be below those of above.
func (t *aged) join(above *aged) *aged {
	switch {
	case t == nil:
		return above
	case above == nil:
		return t
	case t.weight < above.weight:
		above.left = t.join(above.left)
		return above.updated()
	default:
		t.right = t.right.join(above)
		return t.updated()
	}
}

// updated sets oldest according to the nodes below, and returns t.
func (t *aged) updated() *aged {
	t.oldest = t
	for _, below := range []*aged{t.left, t.right} {
		if below != nil && below.oldest.before(t.oldest) {
			t.oldest = below.oldest
		}
	}
	return t
}
