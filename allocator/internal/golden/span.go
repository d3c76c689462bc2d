package golden

import (
	"bytes"
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
