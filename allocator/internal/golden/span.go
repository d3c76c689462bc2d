package golden

import (
	"bytes"
	"fmt"
	"math/big"
	"net/netip"
)

// Span is a run of addresses, both ends included. It is empty if its ends are not two addresses of one family,
// without zones and in order.
type Span struct{ First, Last netip.Addr }

// Size is the number of addresses.
func (s Span) Size() *big.Int {
	if !s.makesSense() {
		return new(big.Int)
	}
	n := new(big.Int).Sub(Number(s.Last), Number(s.First))
	if n.Sign() < 0 {
		return new(big.Int)
	}
	return plus(n, 1)
}

// IsEmpty reports whether there is no address in s.
func (s Span) IsEmpty() bool { return s.Size().Sign() == 0 }

// Has reports whether a is one of the addresses of s. Bytes in network order compare as numbers do.
func (s Span) Has(a netip.Addr) bool {
	if !s.makesSense() || a.BitLen() != s.First.BitLen() || a.Zone() != "" {
		return false
	}
	n, first, last := a.As16(), s.First.As16(), s.Last.As16()
	return bytes.Compare(first[:], n[:]) <= 0 && bytes.Compare(n[:], last[:]) <= 0
}

// makesSense reports whether the ends are addresses of one family without zones.
func (s Span) makesSense() bool {
	return s.First.IsValid() && s.Last.IsValid() && s.First.BitLen() == s.Last.BitLen() && s.First.Zone()+s.Last.Zone() == ""
}

// Overlaps reports whether an address is in both spans: two runs meet where one of them begins, or nowhere.
func (s Span) Overlaps(o Span) bool {
	return !s.IsEmpty() && !o.IsEmpty() && (s.Has(o.First) || o.Has(s.First))
}

// Addrs returns all addresses of s in ascending order.
func (s Span) Addrs() []netip.Addr {
	var list []netip.Addr
	for k, size := int64(0), s.Size(); big.NewInt(k).Cmp(size) < 0; k++ {
		list = append(list, Addr(plus(Number(s.First), k), s.First.Is4()))
	}
	return list
}

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

// Range is a Service range: a prefix with all bits behind its length zero.
type Range struct{ Prefix netip.Prefix }

// Size is the number of all addresses of the prefix, usable or not.
func (r Range) Size() *big.Int { return power(r.Prefix.Addr().BitLen() - r.Prefix.Bits()) }

// Usable returns the usable addresses: all but the first one, which names the network, and in IPv4 all but the
// last one, which is the broadcast address.
func (r Range) Usable() Span {
	network := Number(r.Prefix.Addr())
	end := new(big.Int).Add(network, r.Size())
	if r.is4() {
		end = plus(end, -1)
	}
	return r.span(plus(network, 1), end)
}

// Offset is the number of static addresses: min(max(16, size/16), 256), but 0 where size is at most 16.
//
// In an IPv4 /1 it is 0 as well: the API server computes the size of such a prefix as 0.
func (r Range) Offset() *big.Int {
	if r.is4() && r.Prefix.Bits() == 1 || r.Size().Cmp(big.NewInt(16)) <= 0 {
		return big.NewInt(0)
	}
	offset := new(big.Int).Quo(r.Size(), big.NewInt(16))
	if offset.Cmp(big.NewInt(16)) < 0 {
		offset = big.NewInt(16)
	}
	if offset.Cmp(big.NewInt(256)) > 0 {
		offset = big.NewInt(256)
	}
	return offset
}

// Static returns the static band: as many usable addresses as Offset says, from the first one on.
func (r Range) Static() Span {
	if r.Usable().IsEmpty() {
		return Span{}
	}
	first := Number(r.Usable().First)
	return r.span(first, new(big.Int).Add(first, r.Offset()))
}

// Dynamic returns the usable addresses behind the static band.
func (r Range) Dynamic() Span {
	usable := r.Usable()
	if usable.IsEmpty() {
		return Span{}
	}
	return r.span(new(big.Int).Add(Number(usable.First), r.Offset()), plus(Number(usable.Last), 1))
}

// span returns the addresses from first up to, but without, end; the zero Span if there are none.
func (r Range) span(first, end *big.Int) Span {
	if first.Cmp(end) >= 0 {
		return Span{}
	}
	return Span{Addr(first, r.is4()), Addr(plus(end, -1), r.is4())}
}

func (r Range) is4() bool { return r.Prefix.Addr().Is4() }
