package allocator

import "slices"

// interval is a Span in numbers. It is never empty: first <= last.
type interval struct{ first, last uint128 }

// size is the number of addresses. The whole 128-bit space would wrap to 0; no Span of a Range comes near.
func (iv interval) size() uint128 { return iv.last.sub(iv.first).plus(1) }

func (iv interval) overlaps(o interval) bool {
	return !o.last.less(iv.first) && !iv.last.less(o.first)
}

func (iv interval) covers(o interval) bool { return !o.first.less(iv.first) && !iv.last.less(o.last) }

func byFirst(a, b interval) int { return a.first.compare(b.first) }

// intervals is a list of intervals; when normal, it is sorted by first and its members are disjoint.
type intervals []interval

// normalize sorts the list in place and joins what overlaps.
//
//	|----a----|
//	     |----b----|        becomes   |------a------|   |--c--|
//	                 |--c--|
func (list intervals) normalize() intervals {
	if len(list) < 2 {
		return list
	}
	slices.SortFunc(list, byFirst)
	joined := list[:1]
	for _, next := range list[1:] {
		top := &joined[len(joined)-1]
		switch {
		case top.last.less(next.first):
			joined = append(joined, next)
		case top.last.less(next.last):
			top.last = next.last
		}
	}
	return joined
}

// cutFrom appends to dst what remains of iv when the list, which is normal, is taken away.
//
//	iv    |-----------------------|
//	list     |--|      |---|    |------|
//	dst   |-|    |----|     |--|
func (list intervals) cutFrom(iv interval, dst intervals) intervals {
	next, _ := slices.BinarySearchFunc(list, iv.first, endsBefore)
	for _, hole := range list[next:] {
		if iv.last.less(hole.first) {
			break
		}
		if iv.first.less(hole.first) {
			dst = append(dst, interval{iv.first, hole.first.minus(1)})
		}
		if !hole.last.less(iv.last) {
			return dst
		}
		iv.first = hole.last.plus(1)
	}
	return append(dst, iv)
}

// near returns the members of the list, which is normal, that overlap iv.
func (list intervals) near(iv interval) intervals {
	from, _ := slices.BinarySearchFunc(list, iv.first, endsBefore)
	list = list[from:]
	to, found := slices.BinarySearchFunc(list, iv.last, startsBefore)
	if found {
		to++
	}
	return list[:to]
}

// startsBefore compares the start of an interval with an address, to search a normal list.
func startsBefore(iv interval, a uint128) int { return iv.first.compare(a) }

// endsBefore compares the end of an interval with an address, to search a normal list.
func endsBefore(iv interval, a uint128) int { return iv.last.compare(a) }
