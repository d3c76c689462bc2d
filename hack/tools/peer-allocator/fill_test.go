package peer

import (
	"fmt"
	"iter"
	"math/big"
	"math/rand/v2"
	"net"
	"net/netip"
	"testing"
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

// bits has a one for each used address, counted from the first usable one: what the bitmap is in etcd.
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

// used returns the used addresses.
func (f fill) used() iter.Seq[netip.Addr] {
	if f.million {
		return f.scattered(1_000_000)
	}
	return func(yield func(netip.Addr) bool) {
		bits, a := f.bits(), f.prefix.Addr()
		for i := range bits.BitLen() {
			a = a.Next()
			if bits.Bit(i) == 1 && !yield(a) {
				return
			}
		}
	}
}

// scattered returns n addresses at random in the lower 64 bits; in a /64 they seldom meet.
func (f fill) scattered(n int) iter.Seq[netip.Addr] {
	return func(yield func(netip.Addr) bool) {
		random := rand.New(rand.NewPCG(1, 2))
		for range n {
			a := f.prefix.Addr().As16()
			for i := range 8 {
				a[8+i] = byte(random.Uint32())
			}
			if !yield(netip.AddrFrom16(a)) {
				return
			}
		}
	}
}

// TestFill checks the ground that the benchmarks stand on: as much is used as they say, all of it dynamic.
func TestFill(t *testing.T) {
	for _, f := range fills() {
		offset, size := f.band()
		n := 0
		for a := range f.used() {
			if !f.prefix.Contains(a) {
				t.Fatalf("%s: %s is used", f, a)
			}
			n++
		}
		want := min(int(float64(size)*f.share/100), size-1)
		if low := f.bits().TrailingZeroBits(); n != want || n > 0 && int(low) < offset {
			t.Errorf("%s: %d addresses are used, want %d; the first is number %d, want none before %d", f, n, want, low, offset)
		}
	}
}
