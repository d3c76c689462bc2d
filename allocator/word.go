package allocator

import "math/bits"

// wordSize is the number of addresses in a word.
const wordSize = 64

// upTo returns the mask of the bits 0 to bit, both included.
func upTo(bit uint) uint64 { return 2<<bit - 1 }

// below returns the mask of the bits before bit.
func below(bit uint) uint64 { return 1<<bit - 1 }

func count(mask uint64) uint64 { return uint64(bits.OnesCount64(mask)) }

// population returns the number of members of some words.
func population(words []entry) (sum uint64) {
	for i := range words {
		sum += count(words[i].val)
	}
	return sum
}

// nthZero returns the position of the k-th zero of mask, counted from 0; mask has more than k zeros.
//
// It counts the zeros of all eight bytes at once, those of the bytes below included, so that the byte to look
// in is the first whose sum exceeds k. Of that byte it then drops the zeros that come before.
func nthZero(mask uint64, k uint64) uint64 {
	const each = 0x0101010101010101 // times a byte: that byte eight times
	zeros := ^mask
	sums := zeros - zeros>>1&(0x55*each)
	sums = sums&(0x33*each) + sums>>2&(0x33*each)
	sums = (sums + sums>>4) & (0x0f * each) * each
	passed := ((k*each | 0x80*each) - sums) & (0x80 * each) // one bit for each byte whose sum is at most k
	at := count(passed) * 8
	zeros >>= at
	for k -= sums << 8 >> at & 0xff; k > 0; k-- {
		zeros &= zeros - 1
	}
	return at + uint64(bits.TrailingZeros64(zeros))
}
