package allocator

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"net/netip"
)

// uint128 is an address as a number. IPv4 addresses have their IPv4-mapped place (::ffff:0:0/96),
// so that both families share one arithmetic and nothing overflows at the end of the IPv4 space.
type uint128 struct{ hi, lo uint64 }

// numberOf returns a as a number. The zone is not part of it.
func numberOf(a netip.Addr) uint128 {
	b := a.As16()
	return uint128{binary.BigEndian.Uint64(b[:8]), binary.BigEndian.Uint64(b[8:])}
}

// addr returns u as an address of a family.
func (u uint128) addr(f Family) netip.Addr {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], u.hi)
	binary.BigEndian.PutUint64(b[8:], u.lo)
	if f == IPv4 {
		return netip.AddrFrom4([4]byte(b[12:]))
	}
	return netip.AddrFrom16(b)
}

// less reports whether u is smaller than v. It has no branch: the borrow of u-v is the answer.
func (u uint128) less(v uint128) bool {
	_, borrow := bits.Sub64(u.lo, v.lo, 0)
	_, borrow = bits.Sub64(u.hi, v.hi, borrow)
	return borrow != 0
}

func (u uint128) compare(v uint128) int {
	switch {
	case u.less(v):
		return -1
	case v.less(u):
		return 1
	default:
		return 0
	}
}

func (u uint128) isZero() bool { return u.hi|u.lo == 0 }

// plus returns u+n, wrapping around at the end.
func (u uint128) plus(n uint64) uint128 { return u.add(uint128{0, n}) }

// minus returns u-n, wrapping around at zero.
func (u uint128) minus(n uint64) uint128 { return u.sub(uint128{0, n}) }

// add returns u+v, wrapping around at the end.
func (u uint128) add(v uint128) uint128 {
	lo, carry := bits.Add64(u.lo, v.lo, 0)
	hi, _ := bits.Add64(u.hi, v.hi, carry)
	return uint128{hi, lo}
}

// sub returns u-v, wrapping around at zero.
func (u uint128) sub(v uint128) uint128 {
	lo, borrow := bits.Sub64(u.lo, v.lo, 0)
	hi, _ := bits.Sub64(u.hi, v.hi, borrow)
	return uint128{hi, lo}
}

func (u uint128) or(v uint128) uint128 { return uint128{u.hi | v.hi, u.lo | v.lo} }

// word returns the key of the 64-address word that holds u, and the bit of u in it.
func (u uint128) word() (key uint128, bit uint) {
	return uint128{u.hi >> 6, u.hi<<58 | u.lo>>6}, uint(u.lo & 63)
}

// base is the inverse of word: the first address of the word with key u.
func (u uint128) base() uint128 { return uint128{u.hi<<6 | u.lo>>58, u.lo << 6} }

// saturated returns u, or the largest uint64 where u does not fit.
func (u uint128) saturated() uint64 {
	if u.hi != 0 {
		return math.MaxUint64
	}
	return u.lo
}

// ones returns a number whose low n bits are set; n is at most 128.
func ones(n int) uint128 {
	if n > 64 {
		return uint128{1<<(n-64) - 1, math.MaxUint64}
	}
	return uint128{0, 1<<n - 1}
}

// String is the number in 32 hexadecimal digits.
func (u uint128) String() string { return fmt.Sprintf("%016x%016x", u.hi, u.lo) }
