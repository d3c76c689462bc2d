package allocator

import (
	"fmt"
	"net/netip"
)

// maxHostBits is what a Range may leave to its addresses: the API server refuses more in IPv6 as well.
const maxHostBits = 64

// Range is a Service range: a prefix and its usable addresses.
//
//	IPv4  10.0.0.0/24  |network|.1 ....................... .254|broadcast|
//	IPv6  fd00::/120   |network|::1 ............................... ::ff|
//
// The network address is never usable. The last one is not in IPv4, where it is the broadcast address; in
// IPv6 it is. Ranges are comparable: equal ranges are ==. The zero Range has no address.
//
// All methods cost a few instructions and allocate nothing.
type Range struct {
	// prefix is masked, IPv4 or plain IPv6, and leaves at most maxHostBits; or it is the zero Prefix.
	prefix netip.Prefix
}

// NewRange returns the range of p, whose host bits may be anything. The error is a *RangeError if p is
// invalid, leaves more than 64 bits to its addresses (IPv6), is the whole of IPv4, or is IPv4-mapped.
func NewRange(p netip.Prefix) (Range, error) {
	switch {
	case !p.IsValid():
		return Range{}, &RangeError{p.String(), "it is not an IP prefix; write it as 10.96.0.0/16 or fd00:10:96::/112"}
	case p.Addr().Is4In6():
		return Range{}, &RangeError{p.String(), "it is an IPv4-mapped IPv6 prefix; write " + unmapped(p)}
	case p.Addr().Is4() && p.Bits() == 0:
		return Range{}, &RangeError{p.String(), "it is the whole of IPv4; choose a part of it, for example 10.96.0.0/16"}
	case p.Addr().BitLen()-p.Bits() > maxHostBits:
		part := netip.PrefixFrom(p.Masked().Addr(), p.Addr().BitLen()-maxHostBits)
		return Range{}, &RangeError{p.String(), fmt.Sprintf("it is too large; choose a /64 or smaller inside it, for example %s", part)}
	default:
		return Range{p.Masked()}, nil
	}
}

// ParseRange is NewRange of a prefix in text form, as it stands in the spec of a ServiceCIDR. The error is a
// *RangeError if s is not a prefix or not one that can be a range.
func ParseRange(s string) (Range, error) {
	p, err := netip.ParsePrefix(s)
	if err != nil {
		return Range{}, &RangeError{s, "it is not an IP prefix; write it as 10.96.0.0/16 or fd00:10:96::/112, without a zone"}
	}
	return NewRange(p)
}

// unmapped says how the IPv4 prefix that was meant is written.
func unmapped(p netip.Prefix) string {
	if p.Bits() < 96 {
		return "an IPv4 prefix or an IPv6 prefix outside ::ffff:0:0/96"
	}
	return netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96).Masked().String()
}

// Prefix returns the masked prefix; the zero Prefix for the zero Range.
func (r Range) Prefix() netip.Prefix { return r.prefix }

// String returns the prefix in CIDR notation.
func (r Range) String() string { return r.prefix.String() }

// Span returns the usable addresses; it is empty for /31, /32, /128 and for the zero Range.
func (r Range) Span() Span {
	iv, ok := r.usable()
	return r.span(iv, ok)
}

// Size is the number of usable addresses.
func (r Range) Size() uint64 {
	iv, ok := r.usable()
	if !ok {
		return 0
	}
	return iv.size().saturated()
}

// Contains reports whether a is a usable address of the range.
func (r Range) Contains(a netip.Addr) bool { return r.Span().Contains(a) }

// usable returns the usable addresses in numbers, and false if there are none.
func (r Range) usable() (interval, bool) {
	if !r.prefix.IsValid() {
		return interval{}, false
	}
	network := numberOf(r.prefix.Addr())
	iv := interval{network.plus(1), network.or(ones(r.hostBits()))}
	if r.is4() {
		iv.last = iv.last.minus(1)
	}
	return iv, r.hostBits() > 1 || r.hostBits() == 1 && !r.is4()
}

func (r Range) is4() bool { return r.prefix.Addr().Is4() }

// hostBits is how many bits the prefix leaves to its addresses.
func (r Range) hostBits() int { return r.prefix.Addr().BitLen() - r.prefix.Bits() }

func (r Range) span(iv interval, ok bool) Span {
	if !ok {
		return Span{}
	}
	return iv.span(r.is4())
}
