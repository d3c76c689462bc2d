package iptables

import (
	"maps"
	"slices"
)

const (
	bucketSize  = 16 // keys that one chain holds side by side; some 48 rules, as many as two levels more would cost
	maxDepth    = 4  // chains below the root on the way to a key; the kernel allows 16 on a whole way (NFT_JUMP_STACK_SIZE)
	maxKeyRules = 8  // rules of one key in a shared chain; a key with more gets a chain of its own
	// Strides of four bits. Two make a third of the chains where addresses are sparse, but take more of them for one packet than the kernel
	// allows with tens of thousands of addresses.
	strideBits = 4
	fanout     = 1 << strideBits
)

// A tree turns a set of keys, each with rules, into chains that find the rules of a key in a number of steps that grows with the
// logarithm of the number of keys. Keys are virtual IPs or node ports, as the bytes of their big-endian form, all of one length.
//
// It is a trie with strides of four bits. A node with few keys is a bucket: its chain holds the rules of all of them. A node with a
// single child is left out, its parent goes to the child (path compression). The chains are a pure function of the keys and their
// rules: the order in which they came has no influence. Cost of Set and of emitting it: the depth of the key.
type tree struct {
	// chain names the chain of a prefix, match returns the matches of a rule that leads into it.
	chain func(key string, bits int) string
	match func(key string, bits int) string
	// preamble are rules that stand first in the chain of the root.
	preamble []string

	bits  int // of a key
	root  *treeNode
	rules map[string][]string // by key
	gone  []string            // chains of nodes that no longer exist
}

// treeNode is a prefix that at least one key has.
type treeNode struct {
	key   string // the prefix, filled up with zeros
	bits  int
	count int // keys below

	kids *[fanout]*treeNode  // nil in a bucket
	keys map[string]struct{} // the keys of a bucket

	dirty bool
	depth int      // of its chain when it was emitted last; zero when it had none
	own   []string // chains of single keys with many rules, as emitted last
}

func newTree(bits int, chain, match func(string, int) string) *tree {
	t := &tree{chain: chain, match: match, bits: bits, rules: map[string][]string{}}
	t.root = &treeNode{key: string(make([]byte, bits/8)), keys: map[string]struct{}{}, dirty: true}
	return t
}

// Set gives a key its rules; none removes it. The rules are the bodies, without the name of a chain.
func (t *tree) Set(key string, rules []string) {
	old, had := t.rules[key]
	switch {
	case len(rules) == 0 && !had, had && slices.Equal(old, rules):
		return
	case len(rules) == 0:
		delete(t.rules, key)
		t.remove(t.root, key)
	case had:
		t.rules[key] = rules
		t.touch(t.root, key)
	default:
		t.rules[key] = rules
		t.insert(t.root, key)
	}
}

// SetPreamble replaces the rules that stand first.
func (t *tree) SetPreamble(rules []string) {
	if !slices.Equal(t.preamble, rules) {
		t.preamble, t.root.dirty = rules, true
	}
}

// Len returns the number of keys.
func (t *tree) Len() int { return len(t.rules) }

func (t *tree) touch(n *treeNode, key string) {
	for n.dirty = true; n.kids != nil; n.dirty = true {
		n = n.kids[digit(key, n.bits)]
	}
}

func (t *tree) insert(n *treeNode, key string) {
	for {
		n.count++
		n.dirty = true
		if n.kids == nil {
			n.keys[key] = struct{}{}
			if n.count > bucketSize && n.bits < t.bits {
				t.split(n)
			}
			return
		}
		n = n.kid(key)
	}
}

// split makes an inner node of a bucket that overflowed.
func (t *tree) split(n *treeNode) {
	keys := n.keys
	n.keys, n.kids = nil, new([fanout]*treeNode)
	for key := range keys {
		t.insert(n.kid(key), key)
	}
}

// kid returns the child on the way to key, and makes it if need be.
func (n *treeNode) kid(key string) *treeNode {
	i := digit(key, n.bits)
	if n.kids[i] == nil {
		bits := n.bits + strideBits
		n.kids[i] = &treeNode{key: truncate(key, bits), bits: bits, keys: map[string]struct{}{}, dirty: true}
	}
	return n.kids[i]
}

func (t *tree) remove(n *treeNode, key string) {
	n.count--
	n.dirty = true
	if n.kids == nil {
		delete(n.keys, key)
		return
	}
	i := digit(key, n.bits)
	t.remove(n.kids[i], key)
	if n.kids[i].count == 0 {
		t.retire(n.kids[i])
		n.kids[i] = nil
	}
	if n.count <= bucketSize {
		t.merge(n)
	}
}

// merge makes a bucket of an inner node that has few keys left.
func (t *tree) merge(n *treeNode) {
	n.keys = map[string]struct{}{}
	for _, kid := range n.kids {
		if kid != nil {
			maps.Copy(n.keys, kid.keys) // a kid has fewer keys than a bucket may have: it is one
			t.retire(kid)
		}
	}
	n.kids = nil
}

// retire notes that a node has no chain any more.
func (t *tree) retire(n *treeNode) {
	if n.depth > 0 {
		t.gone = append(t.gone, t.chain(n.key, n.bits))
		n.depth = 0
	}
	t.gone = append(t.gone, n.own...)
	n.own = nil
}

// Emit calls set with every chain that may have changed since the last Emit, and remove with those that are no more. Every chain that
// a rule leads to exists in the sum of all calls.
func (t *tree) Emit(set func(chain string, rules []string), remove func(chain string)) {
	e := emission{tree: t, set: set, emitted: map[string]bool{}}
	e.node(t.root, 0)
	for _, chain := range t.gone {
		if !e.emitted[chain] {
			remove(chain)
		}
	}
	t.gone = nil
}

// emission is one run of Emit.
type emission struct {
	*tree
	set     func(string, []string)
	emitted map[string]bool
}

// node writes the chain of a node and of those below it that changed, or that lie at another depth than before.
func (e *emission) node(n *treeNode, depth int) {
	if !n.dirty && n.depth == depth {
		return
	}
	n.dirty, n.depth = false, depth
	e.gone = append(e.gone, n.own...)
	n.own = nil
	if n.kids == nil || depth == maxDepth {
		e.bucket(n)
		return
	}
	e.inner(n)
}

// bucket writes the rules of all keys below n into one chain.
func (e *emission) bucket(n *treeNode) {
	var rules []string
	for _, key := range slices.Sorted(maps.Keys(n.all())) {
		rules = append(rules, e.key(n, key)...)
	}
	e.chainOf(n, rules)
	if n.kids != nil {
		for _, kid := range n.kids {
			e.forget(kid)
		}
	}
}

// inner writes one rule for each child.
func (e *emission) inner(n *treeNode) {
	var rules []string
	for _, kid := range n.kids {
		if kid == nil {
			continue
		}
		target := e.compress(kid)
		if target.count == 1 {
			key := target.single()
			rules = append(rules, e.key(n, key)...)
			e.forget(target)
			continue
		}
		rules = append(rules, e.match(target.key, target.bits)+" -g "+e.chain(target.key, target.bits))
		e.node(target, n.depth+1)
	}
	e.chainOf(n, rules)
}

// compress descends to the first node with more than one child, or to a bucket. The nodes that it skips have no chain.
func (e *emission) compress(n *treeNode) *treeNode {
	for n.kids != nil {
		var only *treeNode
		for _, kid := range n.kids {
			if kid == nil {
				continue
			}
			if only != nil {
				return n
			}
			only = kid
		}
		n.dirty = false
		e.retire(n)
		n = only
	}
	return n
}

// forget removes the chains of a subtree whose rules are in a chain above it.
func (e *emission) forget(n *treeNode) {
	if n == nil {
		return
	}
	e.retire(n)
	n.dirty = true // if it is needed again it has to be written
	if n.kids != nil {
		for _, kid := range n.kids {
			e.forget(kid)
		}
	}
}

// key returns the rules of one key for the chain of n: its own ones, or one that leads into a chain with them.
func (e *emission) key(n *treeNode, key string) []string {
	rules := e.rules[key]
	if len(rules) <= maxKeyRules || n.bits == e.bits {
		return rules
	}
	name := e.chain(key, e.bits)
	e.emit(name, rules)
	n.own = append(n.own, name)
	return []string{e.match(key, e.bits) + " -g " + name}
}

func (e *emission) chainOf(n *treeNode, rules []string) {
	if n.bits == 0 {
		rules = append(slices.Clone(e.preamble), rules...)
	}
	e.emit(e.chain(n.key, n.bits), rules)
}

func (e *emission) emit(chain string, rules []string) {
	e.emitted[chain] = true
	e.set(chain, rules)
}

// all returns the keys below n.
func (n *treeNode) all() map[string]struct{} {
	if n.kids == nil {
		return n.keys
	}
	keys := make(map[string]struct{}, n.count)
	for _, kid := range n.kids {
		if kid != nil {
			maps.Copy(keys, kid.all())
		}
	}
	return keys
}

// single returns the key of a node that has one.
func (n *treeNode) single() string {
	for key := range n.all() {
		return key
	}
	panic("a node without keys is in the tree")
}

// digit returns the bits of key at an offset that choose a child.
func digit(key string, offset int) byte {
	return key[offset/8] >> (8 - strideBits - offset%8) & (fanout - 1)
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
