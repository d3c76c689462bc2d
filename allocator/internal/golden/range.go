package golden

import (
	"math/big"
	"net/netip"
)

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
