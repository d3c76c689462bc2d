package bitmap_test

import (
	"bytes"
	"math/big"
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/clusterip-operator/clusterip-operator/allocator/bitmap"
)

// oracle is a bitmap as its definition has it: one number, whose bit i stands for the address i+1
// after the network address. It is slow, and shares nothing with the package.
type oracle struct {
	prefix netip.Prefix
	number *big.Int
}

func newOracle(p netip.Prefix) oracle { return oracle{p.Masked(), new(big.Int)} }

// capacity: no network address, no IPv4 broadcast address, at most 65535 addresses in IPv6.
func (o oracle) capacity() int {
	size := 1<<(o.prefix.Addr().BitLen()-o.prefix.Bits()) - 1
	if o.prefix.Addr().Is4() {
		return max(0, size-1)
	}
	return min(size, 65535)
}

// addr returns the address of bit i.
func (o oracle) addr(i int) netip.Addr {
	n := number(o.prefix.Addr())
	a, _ := netip.AddrFromSlice(n.Add(n, big.NewInt(int64(i)+1)).FillBytes(make([]byte, o.prefix.Addr().BitLen()/8)))
	return a
}

func number(a netip.Addr) *big.Int { return new(big.Int).SetBytes(a.AsSlice()) }

// bit returns the bit of a, or -1 if it has none.
func (o oracle) bit(a netip.Addr) int {
	if !a.IsValid() || a.Zone() != "" || a.Is4() != o.prefix.Addr().Is4() {
		return -1
	}
	n := number(a)
	n.Sub(n, number(o.prefix.Addr())).Sub(n, big.NewInt(1))
	if n.Sign() < 0 || n.Cmp(big.NewInt(int64(o.capacity()))) >= 0 {
		return -1
	}
	return int(n.Int64())
}

func (o oracle) set(i int, used uint) { o.number.SetBit(o.number, i, used) }

// all returns the used addresses, found by asking about every bit.
func (o oracle) all() (list []netip.Addr) {
	for i := range o.capacity() {
		if o.number.Bit(i) == 1 {
			list = append(list, o.addr(i))
		}
	}
	return list
}

// fill gives each bit a chance of share in a thousand. The number is in binary, last bit first.
func (o oracle) fill(rng *rand.Rand, share int) {
	digits := bytes.Repeat([]byte{'0'}, o.capacity())
	for i := range digits {
		if rng.IntN(1000) < share {
			digits[len(digits)-1-i] = '1'
		}
	}
	o.number.SetString(string(digits), 2)
}

// lengths returns a prefix of each length that an API server's range may have, at both ends of the
// address space and where 64 bits meet.
func lengths() (list []netip.Prefix) {
	for bits := 12; bits <= 32; bits++ {
		for _, a := range []string{"10.96.0.0", "0.0.0.0", "255.255.255.255"} {
			list = append(list, netip.PrefixFrom(netip.MustParseAddr(a), bits).Masked())
		}
	}
	for bits := 108; bits <= 128; bits++ {
		for _, a := range []string{"fd00:10:96::", "::", "2001:db8::ffff:ffff:ffff:ffff", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"} {
			list = append(list, netip.PrefixFrom(netip.MustParseAddr(a), bits).Masked())
		}
	}
	return list
}

func seeded(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0)) }

func newBitmap(t testing.TB, p netip.Prefix) *bitmap.Bitmap {
	t.Helper()
	b, err := bitmap.New(p)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func parse(t testing.TB, spec string, data []byte) *bitmap.Bitmap {
	t.Helper()
	b, err := bitmap.Parse(spec, data)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func add(t testing.TB, b *bitmap.Bitmap, addrs ...netip.Addr) {
	t.Helper()
	for _, a := range addrs {
		if err := b.Add(a); err != nil {
			t.Fatal(err)
		}
	}
}
