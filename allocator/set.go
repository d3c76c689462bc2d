package allocator

import (
	"iter"
	"math/bits"
	"slices"
	"sort"
)

// set is a set of addresses of one family that counts: it knows how many members lie in an
// interval, and which address is the k-th that is no member. The zero set is empty and ready.
//
//	first    0            7          12
//	before   0            67         90              members of the leaves to the left
//	leaves   ▓0 ▒3 ░4     ▒7 ░9      ▓12 ░20 ▒21     words of 64 addresses
//
// A call finds a leaf and counts the words in it; a change also updates the totals of the leaves
// behind. So it costs the logarithm of the number of words, a pass over half a leaf, and for a
// change one addition per leaf: about a hundred in a full /12. Memory is 24 bytes for each word in
// use, divided by how full leaves are, and shrinks as members go.
type set struct {
	n      uint64    // members
	first  []uint128 // at most the first key of each leaf, and greater than all keys of the leaf before; 0 for the first leaf
	before []uint64  // members of the leaves to the left of each
	leaves [][]word  // never more than leafWords in each
}

// word is 64 addresses, of which at least one is a member.
type word struct {
	key  uint128 // the address divided by 64
	mask uint64  // which of them are members
}

// leafWords is the room of a leaf. Larger leaves cost longer passes, smaller ones more totals.
const leafWords = 256

// leaf returns the leaf that has, or would have, the word with the given key; -1 if there is none.
func (s *set) leaf(key uint128) int {
	return sort.Search(len(s.first), func(i int) bool { return key.less(s.first[i]) }) - 1
}

// find returns the place of the word with the given key, and whether it is there.
func find(words []word, key uint128) (int, bool) {
	if len(words) > 0 { // in a range that is well used, words follow one another without a gap
		if i := key.lo - words[0].key.lo; i < uint64(len(words)) && words[i].key == key {
			return int(i), true
		}
	}
	i := sort.Search(len(words), func(i int) bool { return !words[i].key.less(key) })
	return i, i < len(words) && words[i].key == key
}

// insert adds a and reports whether it is new.
func (s *set) insert(a uint128) bool {
	key, bit := a.word()
	if len(s.leaves) == 0 {
		s.open(0, nil)
	}
	i := s.leaf(key)
	words := s.leaves[i]
	j, ok := find(words, key)
	switch {
	case !ok:
		s.leaves[i] = slices.Insert(words, j, word{key, 1 << bit})
	case words[j].mask&(1<<bit) != 0:
		return false
	default:
		words[j].mask |= 1 << bit
	}
	s.add(i, 1)
	if len(s.leaves[i]) > leafWords {
		s.split(i)
	}
	return true
}

// delete removes a and reports whether it was there.
func (s *set) delete(a uint128) bool {
	key, bit := a.word()
	i := s.leaf(key)
	if i < 0 {
		return false
	}
	words := s.leaves[i]
	j, ok := find(words, key)
	if !ok || words[j].mask&(1<<bit) == 0 {
		return false
	}
	s.add(i, ^uint64(0))
	if words[j].mask &^= 1 << bit; words[j].mask == 0 {
		s.leaves[i] = slices.Delete(words, j, j+1)
		s.join(i)
		s.join(i - 1)
	}
	return true
}

// add changes the number of members of leaf i; adding -n takes n away.
func (s *set) add(i int, n uint64) {
	s.n += n
	for i++; i < len(s.before); i++ {
		s.before[i] += n
	}
}

// open inserts a leaf of some words at place i. The caller sets its totals.
func (s *set) open(i int, words []word) {
	s.first, s.before = slices.Insert(s.first, i, uint128{}), slices.Insert(s.before, i, 0)
	s.leaves = slices.Insert(s.leaves, i, words)
}

// split moves the upper half of leaf i to a new one.
func (s *set) split(i int) {
	words := s.leaves[i]
	s.open(i+1, append(make([]word, 0, leafWords+1), words[leafWords/2:]...))
	s.leaves[i] = words[:leafWords/2]
	s.first[i+1], s.before[i+1] = words[leafWords/2].key, s.before[i]+population(s.leaves[i])
}

// join merges leaf i with the next if one is empty, or both together are at most half a leaf.
func (s *set) join(i int) {
	if i < 0 || i+1 >= len(s.leaves) {
		return
	}
	left, right := s.leaves[i], s.leaves[i+1]
	if len(left) > 0 && len(right) > 0 && len(left)+len(right) > leafWords/2 {
		return
	}
	s.leaves[i] = append(left, right...)
	s.first, s.before, s.leaves = slices.Delete(s.first, i+1, i+2), slices.Delete(s.before, i+1, i+2), slices.Delete(s.leaves, i+1, i+2)
}

// contains reports whether a is a member.
func (s *set) contains(a uint128) bool {
	key, bit := a.word()
	i := s.leaf(key)
	if i < 0 {
		return false
	}
	j, ok := find(s.leaves[i], key)
	return ok && s.leaves[i][j].mask&(1<<bit) != 0
}

// rank returns the number of members before a.
func (s *set) rank(a uint128) uint64 {
	key, bit := a.word()
	return s.upTo(key, 1<<bit-1)
}

// countIn returns the number of members in iv.
func (s *set) countIn(iv interval) uint64 {
	key, bit := iv.last.word()
	return s.upTo(key, 2<<bit-1) - s.rank(iv.first)
}

// upTo returns the number of members in words before key, plus those of key's word in mask.
func (s *set) upTo(key uint128, mask uint64) (n uint64) {
	i := s.leaf(key)
	if i < 0 {
		return 0
	}
	words := s.leaves[i]
	j, ok := find(words, key)
	if ok {
		n = uint64(bits.OnesCount64(words[j].mask & mask))
	}
	if j <= len(words)/2 { // the shorter side is counted
		return n + s.before[i] + population(words[:j])
	}
	if i++; i < len(s.before) {
		return n + s.before[i] - population(words[j:])
	}
	return n + s.n - population(words[j:])
}

// population returns the number of members of some words.
func population(words []word) (n uint64) {
	for i := range words {
		n += uint64(bits.OnesCount64(words[i].mask))
	}
	return n
}

// nthFree returns the address that is no member and has exactly r such addresses before it, in all
// of the space. Without members that is r; every member to the left pushes it further.
func (s *set) nthFree(r uint128) uint128 {
	i := sort.Search(len(s.first), func(i int) bool { return r.plus(s.before[i]).less(s.first[i].base()) }) - 1
	if i < 0 {
		return r
	}
	const stride = 8
	r, words := r.plus(s.before[i]), s.leaves[i]
	for len(words) > stride { // words are passed over eight at a time as long as that is possible
		next := r.plus(population(words[:stride]))
		if next.less(words[stride].key.base()) {
			break
		}
		r, words = next, words[stride:]
	}
	for _, w := range words {
		base, used := w.key.base(), uint64(bits.OnesCount64(w.mask))
		if r.less(base) {
			return r
		}
		if k := r.sub(base); k.hi == 0 && k.lo < 64-used {
			return base.plus(nthZero(w.mask, k.lo))
		}
		r = r.plus(used)
	}
	return r
}

// nthZero returns the position of the k-th zero of mask, from 0 on; mask has more than k zeros.
func nthZero(mask, k uint64) uint64 {
	zeros := ^mask
	for ; k > 0; k-- {
		zeros &= zeros - 1
	}
	return uint64(bits.TrailingZeros64(zeros))
}

// all returns the members in iv in ascending order. The set must not change while they are read.
func (s *set) all(iv interval) iter.Seq[uint128] {
	first, _ := iv.first.word()
	return func(yield func(uint128) bool) {
		for _, words := range s.leaves[max(0, s.leaf(first)):] {
			for _, w := range words {
				for mask := w.mask; mask != 0; mask &= mask - 1 {
					a := w.key.base().plus(uint64(bits.TrailingZeros64(mask)))
					if iv.last.less(a) || !a.less(iv.first) && !yield(a) {
						return
					}
				}
			}
		}
	}
}
