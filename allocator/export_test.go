package allocator

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
	"unsafe"
)

const (
	// Fan is the room of a node.
	Fan = fan
	// LeafBytes is the memory of a leaf.
	LeafBytes = unsafe.Sizeof(node{})
	// CoolingBytes is the memory of a cooling address, beside that of a used one.
	CoolingBytes = unsafe.Sizeof(rester{})
)

// NewPoolWith returns a Pool that draws with src instead of the generator of the runtime.
func NewPoolWith(src rand.Source) *Pool {
	p := NewPool()
	p.rand = src
	return p
}

// Spans returns the runs of a Tier.
func (t *Tier) Spans() []Span {
	var list []Span
	for _, iv := range t.runs() {
		list = append(list, iv.span(t.is4))
	}
	return list
}

// Shape is what the tree of a Set looks like.
type Shape struct{ Depth, Nodes, Words int }

// Check returns the shape of the tree and an error that names the first promise that a node breaks: keys ascend
// and stay between their neighbours' one level up, counts match, no word is empty, every node but the root is
// filled to a quarter at least, all leaves are at one depth, and nothing that was dropped is kept alive.
func (s *Set) Check() (Shape, error) {
	if s.root == nil {
		return Shape{}, nil
	}
	if !s.root.isLeaf() && s.root.n < 2 {
		return Shape{}, fmt.Errorf("the root has %d kids, which is a level too much", s.root.n)
	}
	sh, members, err := s.root.checkBelow(true, uint128{}, ones(128))
	if err == nil && members != uint64(s.Len()) {
		err = fmt.Errorf("the tree has %d members, but Len is %d", members, s.Len())
	}
	return sh, err
}

// checkBelow checks the subtree, whose keys must be at least low and less than end.
func (n *node) checkBelow(root bool, low, end uint128) (sh Shape, members uint64, err error) {
	if n.n > fan || !root && n.n < least {
		return sh, 0, fmt.Errorf("a node holds %d entries, not %d to %d", n.n, least, fan)
	}
	sh.Nodes = 1
	for i := range n.n {
		after := end
		if i+1 < n.n {
			after = n.list[i+1].key
		}
		if key := n.list[i].key; key.less(low) || !key.less(after) {
			return sh, 0, fmt.Errorf("key %d of %d is %s, not from %s up to %s", i, n.n, key, low, after)
		}
		if err := n.checkEntry(i, after, &sh, &members); err != nil {
			return sh, 0, err
		}
		low = after
	}
	if n.total != members {
		return sh, 0, fmt.Errorf("a node claims %d members, but has %d", n.total, members)
	}
	sh.Depth++
	return sh, members, n.checkTail()
}

// checkEntry checks entry i and adds what is in it to sh and members.
func (n *node) checkEntry(i int, end uint128, sh *Shape, members *uint64) error {
	e := n.list[i]
	if n.isLeaf() {
		if e.val == 0 {
			return fmt.Errorf("word %d of %d is empty", i, n.n)
		}
		sh.Words++
		*members += uint64(bits.OnesCount64(e.val))
		return nil
	}
	if e.val != *members {
		return fmt.Errorf("kid %d of %d claims %d members to its left, which are %d", i, n.n, e.val, *members)
	}
	below, more, err := n.kids[i].checkBelow(false, e.key, end)
	if err == nil && i > 0 && below.Depth != sh.Depth {
		err = fmt.Errorf("kid %d of %d is %d levels deep, the ones before are %d", i, n.n, below.Depth, sh.Depth)
	}
	sh.Depth, sh.Nodes, sh.Words = below.Depth, sh.Nodes+below.Nodes, sh.Words+below.Words
	*members += more
	return err
}

// checkTail checks that the places behind the last entry keep no kid alive.
func (n *node) checkTail() error {
	if n.isLeaf() {
		return nil
	}
	for i, kid := range n.kids[n.n:] {
		if kid != nil {
			return fmt.Errorf("place %d behind the %d kids keeps one alive", n.n+i, n.n)
		}
	}
	return nil
}

// Check returns an error that names the first promise that the insides of the pool break.
func (p *Pool) Check() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for name, f := range map[string]*family{"IPv4": &p.four, "IPv6": &p.six} {
		for what, s := range map[string]*Set{"used": &f.used, "reserved": &f.reserved, "assumed": &f.assumed} {
			if _, err := s.Check(); err != nil {
				return fmt.Errorf("%s %s: %w", name, what, err)
			}
		}
		if err := f.check(); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// check checks that every address that is reserved, assumed or cooling is used, and only one of these.
func (f *family) check() error {
	cooling, err := f.cooling.root.check(uint128{}, ones(128))
	if err != nil {
		return fmt.Errorf("cooling: %w", err)
	}
	all := interval{uint128{}, ones(128)}
	seen := map[uint128]bool{}
	note := func(a uint128) bool {
		if seen[a] || !f.used.contains(a) {
			err = fmt.Errorf("%s is in two states, or in one without being used", a)
		}
		seen[a] = true
		return err == nil
	}
	for _, s := range []*Set{&f.reserved, &f.assumed} {
		if s.root != nil {
			s.root.walk(all, note)
		}
	}
	for _, a := range cooling {
		note(a)
	}
	return err
}

// check checks the subtree, whose addresses must be at least low and at most high, and returns them.
func (r *rester) check(low, high uint128) (list []uint128, err error) {
	if r == nil {
		return nil, nil
	}
	if r.addr.less(low) || high.less(r.addr) {
		return nil, fmt.Errorf("%s is not between %s and %s", r.addr, low, high)
	}
	earliest := r
	for _, kid := range []*rester{r.left, r.right} {
		if kid != nil {
			if kid.earliest.before(earliest) {
				earliest = kid.earliest
			}
			if kid.weight > r.weight {
				return nil, fmt.Errorf("%s is heavier than its parent %s", kid.addr, r.addr)
			}
		}
	}
	left, err := r.left.check(low, r.addr)
	if err != nil {
		return nil, err
	}
	right, err := r.right.check(r.addr, high)
	if err != nil {
		return nil, err
	}
	list = append(append(left, r.addr), right...)
	if r.size != uint64(len(list)) || r.earliest != earliest {
		return nil, fmt.Errorf("%s claims %d addresses, %s the earliest, but has %d and %s", r.addr, r.size, r.earliest.addr, len(list), earliest.addr)
	}
	return list, nil
}
