package allocator

import (
	"fmt"
	"net/netip"
	"strconv"
)

// maxHostBits is the most host bits of a Range: the API server refuses more in IPv6 as well.
const maxHostBits = 64

// Range is a Service range: a prefix and its usable addresses.
//
//	IPv4  10.0.0.0/24  |network|.1 ....................... .254|broadcast|
//	IPv6  fd00::/120   |network|::1 ............................... ::ff|
//
// The network address is never usable. The last address is usable in IPv6 but not in IPv4, where it
// is the broadcast address. Ranges are comparable by ==. The zero Range has no address.
type Range struct {
	// prefix is masked, IPv4 or plain IPv6, and leaves at most maxHostBits; or it is the zero Prefix.
	prefix netip.Prefix
}

const noPrefix = "it is not an IP prefix; write it as 10.96.0.0/16 or fd00:10:96::/112, without a zone"

// NewRange returns the range of p, ignoring its host bits. The error says what to write instead if
// p is invalid, has more than 64 host bits (IPv6), is the whole of IPv4, or is IPv4-mapped.
func NewRange(p netip.Prefix) (Range, error) {
	switch {
	case !p.IsValid():
		return refused(p.String(), noPrefix)
	case p.Addr().Is4In6():
		return refused(p.String(), "it is an IPv4-mapped IPv6 prefix; write "+unmapped(p))
	case p.Addr().Is4() && p.Bits() == 0:
		return refused(p.String(), "it is the whole of IPv4; choose a part of it, for example 10.96.0.0/16")
	case p.Addr().BitLen()-p.Bits() > maxHostBits:
		part := netip.PrefixFrom(p.Masked().Addr(), p.Addr().BitLen()-maxHostBits)
		return refused(p.String(), fmt.Sprintf("it is too large; choose a /64 or smaller inside it, for example %s", part))
	default:
		return Range{p.Masked()}, nil
	}
}

// ParseRange is NewRange of a prefix in text form, as it stands in the spec of a ServiceCIDR.
func ParseRange(s string) (Range, error) {
	p, err := netip.ParsePrefix(s)
	if err != nil {
		return refused(s, noPrefix)
	}
	return NewRange(p)
}

// MustParseRange is ParseRange of a prefix that is one. It panics otherwise, and is for tests.
func MustParseRange(s string) Range {
	r, err := ParseRange(s)
	if err != nil {
		panic(err)
	}
	return r
}

func refused(prefix, reason string) (Range, error) {
	return Range{}, fmt.Errorf("%q cannot be a Service range: %s", prefix, reason)
}

// unmapped returns how to write the IPv4 prefix that was meant.
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
	if !r.prefix.IsValid() {
		return Span{}
	}
	network := numberOf(r.prefix.Addr())
	iv := interval{network.plus(1), network.or(ones(r.hostBits()))}
	if r.Family() == IPv4 {
		iv.last = iv.last.minus(1)
	}
	if iv.last.less(iv.first) || r.hostBits() == 0 {
		return Span{}
	}
	return iv.span(r.Family())
}

// Size is the number of usable addresses.
func (r Range) Size() uint64 { return r.Span().Size() }

// Contains reports whether a is a usable address of the range.
func (r Range) Contains(a netip.Addr) bool { return r.Span().Contains(a) }

// Family returns the family of the prefix, none for the zero Range.
func (r Range) Family() Family { return FamilyOf(r.prefix.Addr()) }

// hostBits is how many bits the prefix leaves to its addresses.
func (r Range) hostBits() int { return r.prefix.Addr().BitLen() - r.prefix.Bits() }

// Band is a part of a Range. Addresses that no user chose are drawn from the dynamic band while it
// lasts, so that the static one stays free for those that users choose.
type Band uint8

const (
	// Dynamic is the upper band, from which addresses are drawn.
	Dynamic Band = iota
	// Static is the lower band, from which people choose addresses.
	Static
)

// String returns "dynamic" or "static", the value of the band label.
func (b Band) String() string {
	switch b {
	case Dynamic:
		return "dynamic"
	case Static:
		return "static"
	default:
		return "Band(" + strconv.Itoa(int(b)) + ")"
	}
}

// Band returns the addresses of one band: the first min(max(16, size/16), 256) usable ones are
// static, where size is the number of all addresses of the prefix, and the rest is dynamic. Ranges
// of up to 16 addresses have no bands: all their addresses are dynamic.
//
//	10.96.0.0/16   |network|-- static 256 --|---------- dynamic 65,278 ----------|broadcast|
//	10.96.0.0/27   |network|-- static  16 --|------ dynamic 14 ------|broadcast|
//	10.96.0.0/28   |network|---------- dynamic 14 ----------|broadcast|
func (r Range) Band(b Band) Span {
	all, static := r.Span(), r.staticSize()
	border := numberOf(all.First).plus(static) // the first dynamic address
	switch {
	case all.IsEmpty() || b == Static && static == 0 || b > Static:
		return Span{}
	case b == Static:
		return Span{all.First, border.minus(1).addr(r.Family())}
	default:
		return Span{border.addr(r.Family()), all.Last}
	}
}

// BandOf returns the band of a, and false if a is not a usable address of the range.
func (r Range) BandOf(a netip.Addr) (b Band, ok bool) {
	if r.Band(Static).Contains(a) {
		return Static, true
	}
	return Dynamic, r.Contains(a)
}

// staticSize is the number of addresses of the static band.
//
// An IPv4 /1 has no bands, although the formula gives 256 addresses: the API server takes its size
// for 0, and bands help only if all allocators draw the line at the same place.
func (r Range) staticSize() uint64 {
	const least, share, most = 16, 16, 256
	if r.Family() == IPv4 && r.hostBits() == 31 {
		return 0
	}
	size := ones(r.hostBits()).lo // one less than it is, which a /64 could not say
	if size < least {
		return 0
	}
	return min(max(least, size/share+1), most)
}
