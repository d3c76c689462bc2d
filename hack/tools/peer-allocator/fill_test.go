package peer

import (
	"encoding/binary"
	"fmt"
	"math/big"
	"math/rand/v2"
	"net"
	"net/netip"
)

// fill is a range and how much of its dynamic band is used.
type fill struct {
	prefix  netip.Prefix
	share   float64 // per cent
	million bool    // a million addresses at random instead: for a /64
}

// fills returns the ranges and shares that are measured.
func fills() []fill {
	var list []fill
	for _, bits := range []int{24, 20, 16, 12} {
		for _, share := range []float64{0, 50, 99, 99.99} {
			list = append(list, fill{prefix: netip.PrefixFrom(netip.MustParseAddr("10.0.0.0"), bits), share: share})
		}
	}
	return list
}

// String returns the part of a benchmark's name that says what is full of what.
func (f fill) String() string {
	if f.million {
		return fmt.Sprintf("prefix=%d/used=1M", f.prefix.Bits())
	}
	return fmt.Sprintf("prefix=%d/used=%v", f.prefix.Bits(), f.share)
}

func (f fill) network() *net.IPNet {
	return &net.IPNet{
		IP:   f.prefix.Addr().AsSlice(),
		Mask: net.CIDRMask(f.prefix.Bits(), f.prefix.Addr().BitLen()),
	}
}

// band returns the offset of the dynamic band from the first usable address, and its size.
func (f fill) band() (offset, size int) {
	all := 1 << (32 - f.prefix.Bits())
	offset = min(max(16, all/16), 256)
	return offset, all - 2 - offset
}

// bits has a one for each used address, from the first usable one: what the bitmap is in etcd.
func (f fill) bits() *big.Int {
	random := rand.New(rand.NewPCG(1, 2))
	offset, size := f.band()
	used := min(int(float64(size)*f.share/100), size-1)
	order := random.Perm(size)
	bits := new(big.Int)
	for _, i := range order[:used] {
		bits.SetBit(bits, offset+i, 1)
	}
	return bits
}

// used returns the used addresses: in a /64, random ones seldom meet.
func (f fill) used() (list []netip.Addr) {
	if f.million {
		random := rand.New(rand.NewPCG(1, 2))
		for range 1_000_000 {
			a := f.prefix.Addr().As16()
			binary.BigEndian.PutUint64(a[8:], random.Uint64())
			list = append(list, netip.AddrFrom16(a))
		}
		return list
	}
	bits, a := f.bits(), f.prefix.Addr()
	for i := range bits.BitLen() {
		a = a.Next()
		if bits.Bit(i) == 1 {
			list = append(list, a)
		}
	}
	return list
}
