package seed

import (
	"encoding/binary"
	"net/netip"
)

// staticBand is the size of the static band of every prefix with 4,096 addresses or more.
const staticBand = 256

// scatter returns the i-th address of a walk over a prefix's dynamic band that jumps far with each
// step: as after random allocation, neighbours are seldom both in use. The step is a prime that no
// size divides, so the walk meets every address once before it repeats one. An IPv6 prefix has more
// addresses than a bitmap has bits: when these are used up, the walk goes on in the next 65,536.
func scatter(prefix netip.Prefix, i int) netip.Addr {
	lap := i / (allocatable(prefix) - staticBand) % laps(prefix)
	return plus(prefix.Addr(), uint64(lap)<<16+1+uint64(bit(prefix, i)))
}

// laps is how often the walk begins anew before it repeats an address.
func laps(prefix netip.Prefix) int {
	if prefix.Addr().Is4() {
		return 1
	}
	return max(1, 1<<(prefix.Addr().BitLen()-prefix.Bits())>>16)
}

// bit returns the place of the i-th address in a bitmap, which leaves out the network address.
func bit(prefix netip.Prefix, i int) int {
	const step = 611953
	return staticBand + i*step%(allocatable(prefix)-staticBand)
}

// allocatable is how many addresses a bitmap has: no network address, no IPv4 broadcast address,
// and of IPv6 the first 65,536 at most.
func allocatable(prefix netip.Prefix) int {
	size := 1 << (prefix.Addr().BitLen() - prefix.Bits())
	if prefix.Addr().Is4() {
		return size - 2
	}
	return min(size, 1<<16) - 1
}

// plus returns the n-th address behind a, in the same prefix.
func plus(a netip.Addr, n uint64) netip.Addr {
	b := a.As16()
	binary.BigEndian.PutUint64(b[8:], binary.BigEndian.Uint64(b[8:])+n)
	sum := netip.AddrFrom16(b)
	if a.Is4() {
		return sum.Unmap()
	}
	return sum
}
