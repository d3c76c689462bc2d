package allocator

import (
	"iter"
	"net/netip"
)

// Set is a set of addresses of one family that counts: it knows how many of its members lie in a Span and
// which address of a Span is the k-th that is not a member.
//
// The zero Set is empty and ready. A Set must not be copied after first use, and it is not safe for
// concurrent use; Pool is. Keeping families apart is up to the caller: an IPv4 address and the IPv4-mapped
// IPv6 address of the same number are one member. Invalid addresses and those with a zone are never members.
//
// Costs, with n words of 64 addresses in use (at most the number of members, a 64th of it where they are
// dense):
//
//	Insert, Delete        O(log n); a node of 1 KiB comes or goes with ten or more words
//	Contains, CountIn     O(log n), allocate nothing
//	NthFree               O(log n), allocates nothing
//	Len, zero value       O(1)
//	All                   O(log n) to the first member, then O(1) each
//	memory                24 bytes for each word in use, divided by how full nodes are (two thirds as a rule,
//	                      a quarter at the very least); it shrinks as members go
//
// The logarithm is to a base between 10 and 41: three levels hold a full /12.
type Set struct {
	// root is nil before the first Insert. The last leaf stays when the Set becomes empty, so that one address
	// coming and going allocates nothing.
	root *node
}

// Insert adds a and reports whether it is new.
func (s *Set) Insert(a netip.Addr) bool { return plain(a) && s.insert(numberOf(a)) }

// Delete removes a and reports whether it was there.
func (s *Set) Delete(a netip.Addr) bool { return plain(a) && s.delete(numberOf(a)) }

// Contains reports whether a is a member.
func (s *Set) Contains(a netip.Addr) bool { return plain(a) && s.contains(numberOf(a)) }

// Len returns the number of members.
func (s *Set) Len() int {
	if s.root == nil {
		return 0
	}
	return int(s.root.total)
}

// CountIn returns the number of members in sp.
func (s *Set) CountIn(sp Span) uint64 {
	iv, ok := sp.interval()
	if !ok {
		return 0
	}
	return s.countIn(iv)
}

// NthFree returns the address of sp that is no member and has k such addresses of sp before it. It returns
// false if sp has k or fewer of them.
func (s *Set) NthFree(sp Span, k uint64) (netip.Addr, bool) {
	iv, ok := sp.interval()
	if !ok {
		return netip.Addr{}, false
	}
	st := s.stretch(iv)
	if !st.hasFree(uint128{0, k}) {
		return netip.Addr{}, false
	}
	return s.nthFree(st, uint128{0, k}).addr(sp.First.Is4()), true
}

// All returns the members in sp in ascending order. The Set must not change while they are read.
func (s *Set) All(sp Span) iter.Seq[netip.Addr] {
	return func(yield func(netip.Addr) bool) {
		iv, ok := sp.interval()
		if !ok || s.root == nil {
			return
		}
		is4 := sp.First.Is4()
		s.root.walk(iv, func(a uint128) bool { return yield(a.addr(is4)) })
	}
}

func (s *Set) insert(a uint128) bool {
	key, bit := a.word()
	added, right := s.writable().insert(key, 1<<bit)
	s.grow(right)
	return added
}

// grow puts a new root above the old one and the new neighbour of that, if there is one.
func (s *Set) grow(right *node) {
	if right == nil {
		return
	}
	left, top := s.root, newInner()
	top.n, top.total = 2, left.total+right.total
	top.list[0], top.kids[0] = entry{left.list[0].key, 0}, left
	top.list[1], top.kids[1] = entry{right.list[0].key, left.total}, right
	s.root = top
}

func (s *Set) delete(a uint128) bool {
	if s.root == nil {
		return false
	}
	key, bit := a.word()
	if !s.root.delete(key, 1<<bit) {
		return false
	}
	if !s.root.isLeaf() && s.root.n == 1 {
		s.root = s.root.kids[0]
	}
	return true
}

func (s *Set) contains(a uint128) bool {
	key, bit := a.word()
	return s.root != nil && s.root.mask(key)&(1<<bit) != 0
}

// countIn is CountIn in numbers.
func (s *Set) countIn(iv interval) uint64 { return s.rankThrough(iv.last) - s.rankBefore(iv.first) }

// rankBefore returns the number of members before a.
func (s *Set) rankBefore(a uint128) uint64 {
	if s.root == nil {
		return 0
	}
	key, bit := a.word()
	return s.root.rank(key, below(bit))
}

// rankThrough returns the number of members up to and including a.
func (s *Set) rankThrough(a uint128) uint64 {
	if s.root == nil {
		return 0
	}
	key, bit := a.word()
	return s.root.rank(key, upTo(bit))
}

// stretch is an interval with what a Set has in it and before it.
type stretch struct {
	interval
	before uint64 // members before first
	used   uint64 // members in the interval
}

func (s *Set) stretch(iv interval) stretch {
	before := s.rankBefore(iv.first)
	return stretch{iv, before, s.rankThrough(iv.last) - before}
}

// free returns the number of addresses that are no members.
func (st stretch) free() uint128 { return st.size().minus(st.used) }

// hasFree reports whether the stretch has more than k free addresses. It asks without counting them: the whole
// 128-bit space would overflow.
func (st stretch) hasFree(k uint128) bool { return !st.last.sub(st.first).less(k.plus(st.used)) }

// nthFree returns the address that has k free ones of the stretch before it; the stretch must have it.
func (s *Set) nthFree(st stretch, k uint128) uint128 {
	r := st.first.minus(st.before).add(k)
	if s.root == nil {
		return r
	}
	return s.root.nthFree(r)
}

// take inserts the address that nthFree returns.
func (s *Set) take(st stretch, k uint128) uint128 {
	a, right := s.writable().take(st.first.minus(st.before).add(k))
	s.grow(right)
	return a
}

// writable returns the root, making it if need be.
func (s *Set) writable() *node {
	if s.root == nil {
		s.root = &node{}
	}
	return s.root
}
