package bitmap

import (
	"errors"
	"fmt"
	"math/bits"
	"net/netip"
	"strconv"
	"strings"
)

// Parse reads the two fields of a RangeAllocation: the Range and the Data. Leading zero bytes of
// data mean nothing. On error there is no bitmap:
//
//   - ErrUnset if both are empty, as in a RangeAllocation that was created and never used;
//   - ErrNodePorts, possibly wrapped, if spec is a port range;
//   - one that says what to do if spec is not a prefix, has host bits set, or is refused by New.
//     Leading zeros, as in 10.096.0.0/16, are read as old API servers read them: as decimal;
//   - one that names the lowest such bit if bits are set that stand for no address of the range.
func Parse(spec string, data []byte) (*Bitmap, error) {
	p, err := parsePrefix(spec, data)
	if err != nil {
		return nil, err
	}
	if reason := check(p); reason != "" {
		return nil, refused(spec, reason)
	}
	b := empty(p)
	if n, first := beyond(data, b.size); n > 0 {
		return nil, b.overflow(spec, n, first)
	}
	b.load(data)
	return b, nil
}

// refused says why something cannot be the range of a bitmap and what to do.
func refused(spec, reason string) error {
	return fmt.Errorf("%q cannot be the range of a bitmap: %s", spec, reason)
}

// overflow says that n bits are set that stand for no address of the range, first being the first.
func (b *Bitmap) overflow(spec string, n, first int) error {
	text := fmt.Sprintf("bit %d", first)
	if a := b.addr(first); a.IsValid() {
		text += fmt.Sprintf(" (%s)", a)
	}
	return fmt.Errorf("the bitmap of %s has %d bits, with %d set beyond them, the first is %s: "+
		"either the range was larger once or the bytes are damaged; look for Services with such addresses, then rebuild the bitmap from the Services",
		spec, b.size, n, text)
}

// parsePrefix returns the prefix that spec means, of any length; data helps to explain an error.
func parsePrefix(spec string, data []byte) (netip.Prefix, error) {
	switch {
	case spec == "" && len(trimmed(data)) == 0:
		return netip.Prefix{}, ErrUnset
	case spec == "":
		const reason = "there is no range, although addresses are in use; restore it from a backup, or rebuild the bitmap from the Services"
		return netip.Prefix{}, refused(spec, reason)
	case isPortRange(spec):
		return netip.Prefix{}, fmt.Errorf("range %q: %w", spec, ErrNodePorts)
	}
	p, err := netip.ParsePrefix(withoutLeadingZeros(spec))
	switch {
	case err != nil:
		return netip.Prefix{}, refused(spec, check(netip.Prefix{}))
	case p != p.Masked():
		return netip.Prefix{}, refused(spec, "it has host bits set, which no API server writes; if the range is meant, write "+p.Masked().String())
	default:
		return p, nil
	}
}

// check returns why p cannot be the range of a bitmap and what to do, or "" if it can.
func check(p netip.Prefix) string {
	switch {
	case !p.IsValid():
		return "it is not an IP prefix; write it as 10.96.0.0/16 or fd00:10:96::/112"
	case p.Addr().Is4In6():
		return "it is an IPv4-mapped IPv6 prefix; write " + unmapped(p)
	case p.Addr().BitLen()-p.Bits() > maxHostBits:
		part := netip.PrefixFrom(p.Addr(), p.Addr().BitLen()-maxHostBits).Masked()
		return fmt.Sprintf("it is larger than any range of an API server; choose a /%d or smaller, for example %s", part.Bits(), part)
	default:
		return ""
	}
}

// unmapped returns how to write the IPv4 prefix that was meant.
func unmapped(p netip.Prefix) string {
	if p.Bits() < 96 {
		return "an IPv4 prefix or an IPv6 prefix outside ::ffff:0:0/96"
	}
	return netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96).Masked().String()
}

// isPortRange reports whether spec is a range of node ports: first-last.
func isPortRange(spec string) bool {
	first, last, ok := strings.Cut(spec, "-")
	from, err1 := strconv.ParseUint(first, 10, 16)
	to, err2 := strconv.ParseUint(last, 10, 16)
	return ok && err1 == nil && err2 == nil && from <= to
}

// withoutLeadingZeros returns spec without leading zeros, which netip refuses, in the numbers of an
// IPv4 address and in the length. What has none, or is no prefix, is left for netip to judge.
func withoutLeadingZeros(spec string) string {
	address, length, ok := strings.Cut(spec, "/")
	if !ok {
		return spec
	}
	colon := strings.LastIndex(address, ":") + 1 // an IPv6 address may end like an IPv4 address
	head, tail := address[:colon], strings.Split(address[colon:], ".")
	if len(tail) == 4 {
		for i := range tail {
			tail[i] = trimZeros(tail[i])
		}
	}
	return head + strings.Join(tail, ".") + "/" + trimZeros(length)
}

// trimZeros drops the leading zeros of s, but never its last digit.
func trimZeros(s string) string {
	return strings.TrimLeft(s[:max(0, len(s)-1)], "0") + s[max(0, len(s)-1):]
}

// beyond returns how many bits of data are set from bit n on, and the first of them.
func beyond(data []byte, n int) (count, first int) {
	for i := n / 8; i < len(data); i++ { // bytes counted from the end, where bit 0 is
		d := data[len(data)-1-i]
		if i == n/8 {
			d &= 0xff << (n % 8)
		}
		if count == 0 && d != 0 {
			first = 8*i + bits.TrailingZeros8(d)
		}
		count += bits.OnesCount8(d)
	}
	return count, first
}

// load copies the bits of data into b, which is new; none of them is beyond the last bit of b.
func (b *Bitmap) load(data []byte) {
	data = trimmed(data)
	copy(b.data[len(b.data)-len(data):], data)
	for _, eight := range data {
		b.used += bits.OnesCount8(eight)
	}
}

var (
	// ErrUnset says that the RangeAllocation was never used: it has neither a range nor addresses.
	ErrUnset = errors.New("the bitmap was created and never used: take the range from the API server, no address is in use")
	// ErrNodePorts is the answer to the RangeAllocation of node ports, which has the same form.
	ErrNodePorts = errors.New("the bitmap is that of node ports, not of addresses: leave it as it is")
)
