package fronts

import "math/bits"

// arena hands out places, in blocks whose sizes are powers of two (a buddy allocator). The lowest
// fitting block is taken, so the same calls have the same results. The zero value has no places.
type arena struct {
	size   int        // how many places there are: a power of two, or 0
	used   int        // of them
	free   [][]uint64 // of each class, which blocks are free: a bit each
	lowest []int      // of each class, a word below which none is free
}

// classOf is the class of the smallest block that has room for n; a block of a class has 1<<class.
func classOf(n int) int { return bits.Len(uint(max(n, 1) - 1)) }

// take returns the first place of a block, or false if none is free.
func (a *arena) take(class int) (base uint32, ok bool) {
	for from := class; from < len(a.free); from++ {
		i, found := a.first(from)
		if !found {
			continue
		}
		a.mark(from, i, false)
		for ; from > class; from-- { // the upper halves stay free
			i *= 2
			a.mark(from-1, i+1, true)
		}
		a.used += 1 << class
		return uint32(i << class), true
	}
	return 0, false
}

// give takes a block back, and joins it with its neighbour if that is free.
func (a *arena) give(base uint32, class int) {
	a.used -= 1 << class
	a.join(int(base)>>class, class)
}

func (a *arena) join(i, class int) {
	for ; class+1 < len(a.free) && a.isFree(class, i^1); class++ {
		a.mark(class, i^1, false)
		i /= 2
	}
	a.mark(class, i, true)
}

// sizeFor is the size with which so many places more would be free; at least one is.
func (a *arena) sizeFor(more int) int {
	size := max(a.size, 1)
	for size-a.used < more {
		size *= 2
	}
	return size
}

// grow makes the arena have a size, by doubling.
func (a *arena) grow(size int) {
	for class := len(a.free); 1<<class <= size; class++ {
		a.free, a.lowest = append(a.free, nil), append(a.lowest, 0)
	}
	for class := range a.free {
		words := (size>>class + 63) / 64
		a.free[class] = append(a.free[class], make([]uint64, words-len(a.free[class]))...)
	}
	for a.size < size {
		class := classOf(a.size)
		a.join(a.size>>class, class)
		a.size = max(2*a.size, 1)
	}
}

func (a *arena) first(class int) (int, bool) {
	for w := a.lowest[class]; w < len(a.free[class]); w++ {
		if word := a.free[class][w]; word != 0 {
			a.lowest[class] = w
			return w*64 + bits.TrailingZeros64(word), true
		}
	}
	a.lowest[class] = len(a.free[class])
	return 0, false
}

func (a *arena) isFree(class, i int) bool {
	w := i / 64
	return w < len(a.free[class]) && a.free[class][w]&(1<<(i%64)) != 0
}

func (a *arena) mark(class, i int, free bool) {
	w, bit := i/64, uint64(1)<<(i%64)
	if !free {
		a.free[class][w] &^= bit
		return
	}
	a.free[class][w] |= bit
	a.lowest[class] = min(a.lowest[class], w)
}
