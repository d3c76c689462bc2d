package golden

import (
	"fmt"
	"math/big"
	"net/netip"
)

// Number returns a as a number: 0.0.0.0 and :: are 0. The zone is not part of it.
func Number(a netip.Addr) *big.Int { return new(big.Int).SetBytes(a.AsSlice()) }

// Addr is the inverse of Number for one family. It panics if the family has no such number.
func Addr(n *big.Int, is4 bool) netip.Addr {
	b := make([]byte, 16)
	if is4 {
		b = b[:4]
	}
	if n.Sign() < 0 || n.BitLen() > 8*len(b) {
		panic(fmt.Sprintf("golden: there is no address number %s", n))
	}
	a, _ := netip.AddrFromSlice(n.FillBytes(b))
	return a
}

// plus returns n+k.
func plus(n *big.Int, k int64) *big.Int { return new(big.Int).Add(n, big.NewInt(k)) }

// power returns 2 to the n.
func power(n int) *big.Int { return new(big.Int).Lsh(big.NewInt(1), uint(n)) }
