package iptables

import (
	"maps"
	"math/bits"
	"slices"
	"sort"
)

const (
	bucketSize  = 16 // keys that one chain holds side by side; some 48 rules, as many as two levels more would cost
	maxDepth    = 4  // chains below the root on the way to a key; the kernel allows 16 on a whole way (NFT_JUMP_STACK_SIZE)
	maxKeyRules = 8  // rules of one key in a shared chain; a key with more gets a chain of its own
	// Strides of four bits. Two make a third of the chains where addresses are sparse, but take more of them for one packet than the kernel
	// allows with tens of thousands of addresses.
	strideBits = 4
)

// A tree turns a set of keys, each with rules, into chains that find the rules of a key in a number of steps that grows with the
// logarithm of the number of keys. Keys are virtual IPs or node ports, as the bytes of their big-endian form, all of one length.
//
// A prefix that few keys have is a bucket: its chain holds the rules of all of them. The chain of another one leads to those of its
// prefixes that are four bits longer; where all keys have still more bits in common, it leads there at once (path compression). The
// chains are a pure function of the keys and their rules: the order in which they came has no influence. Cost of Emit: the chains on the
// way to the keys that changed, and moving the keys behind new ones.
type tree struct {
	// chain names the chain of a prefix, match returns the matches of a rule that leads into it.
	chain func(key string, bits int) string
	match func(key string, bits int) string

	bits    int                 // of a key
	rules   map[string][]string // by key
	changed map[string]struct{} // keys whose rules changed since the last Emit
	keys    []string            // sorted, as of the last Emit
	emitted map[treeNode]emitted
}

// treeNode is a prefix that has a chain. Its key is filled up with zeros.
type treeNode struct {
	key  string
	bits int
}

// emitted is what the last Emit wrote about a node: how deep its chain is, and to which ones it leads.
type emitted struct {
	depth int
	below []treeNode
}

func newTree(bits int, chain, match func(string, int) string) *tree {
	return &tree{
		chain: chain, match: match, bits: bits, rules: map[string][]string{}, changed: map[string]struct{}{}, emitted: map[treeNode]emitted{},
	}
}

// Set gives a key its rules; none removes it. The rules are the bodies, without the name of a chain.
func (t *tree) Set(key string, rules []string) {
	if slices.Equal(t.rules[key], rules) {
		return
	}
	t.changed[key] = struct{}{}
	if t.rules[key] = rules; len(rules) == 0 {
		delete(t.rules, key)
	}
}

// Len returns the number of keys.
func (t *tree) Len() int { return len(t.rules) }

// sort brings the keys up to date.
func (t *tree) sort() {
	if len(t.changed) > 64 {
		t.keys = slices.Sorted(maps.Keys(t.rules))
		return
	}
	for key := range t.changed {
		i, was := slices.BinarySearch(t.keys, key)
		switch _, is := t.rules[key]; {
		case is && !was:
			t.keys = slices.Insert(t.keys, i, key)
		case was && !is:
			t.keys = slices.Delete(t.keys, i, i+1)
		}
	}
}

// Emit calls set with every chain that may have changed since the last Emit, and remove with those that are no more. Every chain that
// a rule leads to exists in the sum of all calls.
func (t *tree) Emit(set func(chain string, rules []string), remove func(chain string)) {
	t.sort()
	e := emission{tree: t, set: set, changed: slices.Sorted(maps.Keys(t.changed)), reached: map[treeNode]bool{}}
	e.node(treeNode{key: string(make([]byte, t.bits/8))}, t.keys, 0)
	for len(e.left) > 0 {
		n := e.left[len(e.left)-1]
		e.left = e.left[:len(e.left)-1]
		if old, there := t.emitted[n]; there && !e.reached[n] {
			e.left = append(e.left, old.below...)
			delete(t.emitted, n)
			remove(t.chain(n.key, n.bits))
		}
	}
	clear(t.changed)
}

// emission is one run of Emit.
type emission struct {
	*tree
	set     func(string, []string)
	changed []string          // sorted
	reached map[treeNode]bool // nodes that rules lead to
	left    []treeNode        // nodes that rules led to; some still do
}

// node writes the chain of a prefix and of those below it that changed, or that lie at another depth than before. Keys are those with
// the prefix.
func (e *emission) node(n treeNode, keys []string, depth int) {
	e.reached[n] = true
	old, was := e.emitted[n]
	if was && old.depth == depth && !e.isChanged(n) {
		return
	}
	e.left = append(e.left, old.below...)
	c := treeChainRules{emission: e, node: n, depth: depth}
	if len(keys) <= bucketSize || depth == maxDepth {
		for _, key := range keys {
			c.key(key)
		}
	} else {
		c.branch(keys)
	}
	e.emitted[n] = emitted{depth, c.below}
	e.set(e.chain(n.key, n.bits), c.rules)
}

// isChanged reports whether a key with the prefix changed.
func (e *emission) isChanged(n treeNode) bool {
	i, _ := slices.BinarySearch(e.changed, n.key)
	return i < len(e.changed) && truncate(e.changed[i], n.bits) == n.key
}

// treeChainRules collects the rules of the chain of a node.
type treeChainRules struct {
	*emission
	node  treeNode
	depth int
	rules []string
	below []treeNode
}

// branch adds a rule for each prefix that is one stride longer.
func (c *treeChainRules) branch(keys []string) {
	for len(keys) > 0 {
		d := digit(keys[0], c.node.bits)
		n := sort.Search(len(keys), func(i int) bool { return digit(keys[i], c.node.bits) > d })
		group := keys[:n]
		keys = keys[n:]
		length := c.node.bits + strideBits
		if n > bucketSize {
			length = max(length, commonBits(group[0], group[n-1])/strideBits*strideBits)
		}
		if n == 1 {
			c.key(group[0])
		} else {
			c.lead(treeNode{truncate(group[0], length), length}, group)
		}
	}
}

// key adds the rules of one key, or one that leads into a chain with them.
func (c *treeChainRules) key(key string) {
	if rules := c.tree.rules[key]; len(rules) <= maxKeyRules || c.node.bits == c.bits {
		c.rules = append(c.rules, rules...)
		return
	}
	c.lead(treeNode{key, c.bits}, []string{key})
}

// lead adds a rule that leads to a node below.
func (c *treeChainRules) lead(to treeNode, keys []string) {
	c.rules = append(c.rules, c.match(to.key, to.bits)+" -g "+c.chain(to.key, to.bits))
	c.below = append(c.below, to)
	c.emission.node(to, keys, c.depth+1)
}

// digit returns the bits of key at an offset that choose a child.
func digit(key string, offset int) byte {
	return key[offset/8] >> (8 - strideBits - offset%8) & (1<<strideBits - 1)
}

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
