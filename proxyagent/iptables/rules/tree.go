package rules

import (
	"cmp"
	"math/bits"
	"slices"
)

const (
	fullRules    = 12 // rules of keys that make a chain
	fullChains   = 8  // chains that make a chain above them
	highestLevel = 5  // of a chain, counted from the keys; the kernel allows 16 chains on a whole way (NFT_JUMP_STACK_SIZE)

	segment     = 16 // bits
	segmentKeys = 64 // below a node that ends a segment
)

// tree sorts keys of one length, each with rules, into chains. The number of steps to a key's rules
// grows with the logarithm of the number of keys, whatever keys tenants choose.
//
// It is a binary trie with compressed paths. From the keys upwards each node hands on the entries
// that no chain lists yet, until they fill a chain: then the node gets this chain and hands on one
// entry that leads there. Entries of a level fill chains of the next. So a chain lists at most
// twice as many entries of a level as fill it, and a new key changes only chains on the way to it.
// The road not taken, to cut where the weight is divided best, moves cuts elsewhere too.
//
// Keys that part at every bit of an IPv6 address could make that a hundred chains, each handing one
// key more to the next. So keys are not handed on from one segment of bits to the next.
//
// An entry's prefix can lie within another; the longer comes first, in the same chain or one above.
type tree struct {
	top *node
	// matches reports whether a rule can match a prefix of so many bits. The zero value allows all.
	matches func(bits int) bool
	gone    []*node // nodes that had chains and were removed since the last Emit
}

// node is a key, or a prefix at which keys part.
type node struct {
	key     string // a prefix is filled up with zeros
	bits    int
	below   [2]*node // nil for a key
	rules   []string // of a key
	changed bool     // since the last Emit, here or below

	level   int     // of its chain; zero without
	entries []*node // of its chain: those of the highest level first
	open    []*node // entries that a chain above has to list, in the same order
	all     int     // keys below
}

// Set gives a key its rules; none removes it. The rules are bodies, without the name of a chain.
func (t *tree) Set(key string, rules []string) {
	switch old := t.top.find(key); {
	case len(rules) == 0 && old != nil:
		t.top = t.remove(t.top, key)
	case len(rules) > 0 && (old == nil || !slices.Equal(old.rules, rules)):
		t.top = t.top.with(&node{key: key, bits: len(key) * 8, rules: rules, changed: true})
	}
}

func (n *node) find(key string) *node {
	for n != nil && n.bits < len(key)*8 {
		n = n.below[bit(key, n.bits)]
	}
	if n == nil || n.key != key {
		return nil
	}
	return n
}

// with returns the node with a key more, or with other rules of it.
func (n *node) with(k *node) *node {
	if n == nil || n.key == k.key && n.bits == k.bits {
		return k
	}
	if common := min(commonBits(n.key, k.key), n.bits); common < n.bits {
		n.changed = true // it may end a segment now, or not any more
		parting := &node{key: truncate(k.key, common), bits: common, changed: true}
		parting.below[bit(n.key, common)], parting.below[bit(k.key, common)] = n, k
		return parting
	}
	side := bit(k.key, n.bits)
	n.below[side], n.changed = n.below[side].with(k), true
	return n
}

// remove returns the node without a key that is there.
func (t *tree) remove(n *node, key string) *node {
	if n.bits == len(key)*8 {
		return nil
	}
	side := bit(key, n.bits)
	if n.below[side] = t.remove(n.below[side], key); n.below[side] != nil {
		n.changed = true
		return n
	}
	if n.level > 0 {
		t.gone = append(t.gone, n)
	}
	other := n.below[1-side]
	other.changed = true
	return other
}

// Emit calls set with each node whose chain may have changed since the last Emit, and remove with
// those that have none any more. A node of zero bits has the root chain. Every chain that an entry
// leads to exists in the sum of all calls.
func (t *tree) Emit(set, remove func(*node)) {
	for _, n := range t.gone {
		remove(n)
	}
	t.gone = nil
	root := &node{}
	if t.top != nil {
		t.assign(t.top, t.top.bits, set, remove)
		root.entries = t.top.open
	}
	set(root)
}

// assign decides which changed nodes have chains, from the keys up. above: bits of the node above.
func (t *tree) assign(n *node, above int, set, remove func(*node)) {
	if !n.changed {
		return
	}
	n.changed = false
	if n.bits == len(n.key)*8 {
		n.open, n.all = []*node{n}, 1
		return
	}
	t.assign(n.below[0], n.bits, set, remove)
	t.assign(n.below[1], n.bits, set, remove)
	before := n.level
	n.all = n.below[0].all + n.below[1].all
	// The highest level first: it leads to the most keys, and no prefix of a lower one is within.
	n.open = slices.Concat(n.below[0].open, n.below[1].open)
	slices.SortStableFunc(n.open, func(a, b *node) int { return cmp.Compare(b.level, a.level) })
	n.level, n.entries = 0, nil
	level := fullLevel(n.open)
	if level == 0 && n.bits/segment != above/segment && n.all >= segmentKeys && n.open[len(n.open)-1].level == 0 {
		level = 1
	}
	if level > 0 && n.bits > 0 && (t.matches == nil || t.matches(n.bits)) {
		n.cut(level)
		set(n)
	} else if before > 0 {
		remove(n)
	}
}

// cut gives a node a chain with the open entries below a level, and puts its own in their place.
func (n *node) cut(level int) {
	i := slices.IndexFunc(n.open, func(e *node) bool { return e.level < level })
	n.level, n.entries = level, slices.Clone(n.open[i:])
	n.open = append(n.open[:i], n)
}

// fullLevel returns the level of the highest chain that the entries fill, zero if they fill none.
func fullLevel(entries []*node) int {
	var rules int
	var chains [highestLevel + 1]int
	for _, e := range entries {
		chains[e.level]++
		if e.level == 0 {
			rules += len(e.rules)
		}
	}
	for level := highestLevel; level > 1; level-- {
		if chains[level-1] >= fullChains {
			return level
		}
	}
	if rules >= fullRules {
		return 1
	}
	return 0
}

func bit(key string, at int) byte { return key[at/8] >> (7 - at%8) & 1 }

// commonBits returns how many bits two keys begin with alike.
func commonBits(a, b string) int {
	for i := range len(a) {
		if x := a[i] ^ b[i]; x != 0 {
			return i*8 + bits.LeadingZeros8(x)
		}
	}
	return len(a) * 8
}

// truncate clears all but the first bits of key.
func truncate(key string, bits int) string {
	b := make([]byte, len(key))
	copy(b, key[:bits/8])
	if rest := bits % 8; rest != 0 {
		b[bits/8] = key[bits/8] &^ (1<<(8-rest) - 1)
	}
	return string(b)
}
