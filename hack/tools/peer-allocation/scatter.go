package main

import (
	"encoding/binary"
	"net/netip"
)

// staticBand is the size of the static band of every prefix with 4,096 addresses or more.
const staticBand = 256

// scatter returns the i-th address of a walk over the dynamic band of a prefix that jumps far with each step: as
// random allocation would leave them, neighbours are seldom both in use. The walk meets every address once
// before it meets one again, because the step is a prime that no size divides.
func scatter(prefix netip.Prefix, i int) netip.Addr {
	const step = 611953
	base := prefix.Addr().As4()
	first := binary.BigEndian.Uint32(base[:]) + 1 + staticBand
	size := uint64(1)<<(32-prefix.Bits()) - 2 - staticBand // without network and broadcast address
	var out [4]byte
	binary.BigEndian.PutUint32(out[:], first+uint32(uint64(i)*step%size))
	return netip.AddrFrom4(out)
}
