package bitmap

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"iter"
	"math/bits"
	"net/netip"
	"slices"
)

const (
	// maxHostBits is what a range may leave to its addresses: API servers refuse to start with more.
	maxHostBits = 20
	// maxSize6 is how many addresses of an IPv6 range, counted from the network address, have a bit at most.
	maxSize6 = 1 << 16
)

// Bitmap is the set of used addresses of one Service range, as the legacy allocator keeps it. Make one with New
// or Parse: the zero value is not usable. It is not safe for concurrent use.
//
// It holds one bit for each address it covers, used or not: 128 KiB at most. Covers, Contains, Add, Remove and Len
// cost a few instructions and allocate nothing; All, Data, Clone and Equal walk over all bytes.
type Bitmap struct {
	// prefix is masked and passes check.
	prefix netip.Prefix
	// network is the low half of the network address; no address of the range differs in the high half.
	network uint64
	// size is the number of bits.
	size int
	// data has bit i at bit i%8 of the byte with i/8 others behind it, as API servers write it; the bits from size on are zero.
	data []byte
	// used is the number of bits that are set.
	used int
}

// New returns the empty bitmap of p, whose host bits may be anything. The error says what to choose instead if p is invalid,
// IPv4-mapped, or leaves more than 20 bits to its addresses: IPv4 shorter than /12, IPv6 shorter than /108.
func New(p netip.Prefix) (*Bitmap, error) {
	if reason := check(p); reason != "" {
		return nil, refused(p.String(), reason)
	}
	return empty(p.Masked()), nil
}

// empty is New for a masked prefix that passes check.
func empty(p netip.Prefix) *Bitmap {
	size := capacity(p)
	return &Bitmap{prefix: p, network: low(p.Addr()), size: size, data: make([]byte, (size+7)/8)}
}

// capacity is the number of addresses of p that have a bit.
func capacity(p netip.Prefix) int {
	size := 1 << (p.Addr().BitLen() - p.Bits())
	if p.Addr().Is4() {
		return max(size-2, 0) // neither the network address nor the broadcast address
	}
	return min(size, maxSize6) - 1 // no network address
}

// Prefix returns the range, masked.
func (b *Bitmap) Prefix() netip.Prefix { return b.prefix }

// String returns the range as the API server writes it into the RangeAllocation: in CIDR notation, canonical.
// It may therefore be spelled differently than what was parsed.
func (b *Bitmap) String() string { return b.prefix.String() }

// Len is the number of addresses in use.
func (b *Bitmap) Len() int { return b.used }

// Covers reports whether a has a bit. The network address has none, nor has the broadcast address of an IPv4
// range, nor any address of an IPv6 range behind the first 65536, nor any IPv4-mapped one or one with a zone.
func (b *Bitmap) Covers(a netip.Addr) bool {
	_, ok := b.index(a)
	return ok
}

// Contains reports whether a is in use. It is false for addresses that are not covered.
func (b *Bitmap) Contains(a netip.Addr) bool {
	i, ok := b.index(a)
	return ok && *b.at(i)&mask(i) != 0
}

// Add marks a as used; it may be so already. It is an error if a has no bit.
func (b *Bitmap) Add(a netip.Addr) error {
	i, ok := b.index(a)
	if !ok {
		return b.notCovered(a)
	}
	if at := b.at(i); *at&mask(i) == 0 {
		*at |= mask(i)
		b.used++
	}
	return nil
}

// Remove marks a as unused. Nothing happens if it is not in use, or not covered and so never was.
func (b *Bitmap) Remove(a netip.Addr) {
	i, ok := b.index(a)
	if !ok {
		return
	}
	if at := b.at(i); *at&mask(i) != 0 {
		*at &^= mask(i)
		b.used--
	}
}

// All returns the used addresses in ascending order. The sequence reads 8 addresses at a time and only when it
// gets there: of what is added or removed meanwhile, it may or may not take notice.
func (b *Bitmap) All() iter.Seq[netip.Addr] {
	return func(yield func(netip.Addr) bool) {
		for i := 0; i < b.size; i += 8 {
			for eight := *b.at(i); eight != 0; eight &= eight - 1 {
				if !yield(b.addr(i + bits.TrailingZeros8(eight))) {
					return
				}
			}
		}
	}
}

// Data returns the bytes that the API server would write. Without a used address they are none, yet not nil:
// an encoder may tell the two apart, and the API server writes an empty field.
func (b *Bitmap) Data() []byte { return append([]byte{}, trimmed(b.data)...) }

// trimmed returns data without the zero bytes in front.
func trimmed(data []byte) []byte { return bytes.TrimLeft(data, "\x00") }

// Clone returns a copy that shares nothing with b.
func (b *Bitmap) Clone() *Bitmap {
	c := *b
	c.data = slices.Clone(b.data)
	return &c
}

// Equal reports whether o has the same range and the same addresses in use. A nil Bitmap equals none.
func (b *Bitmap) Equal(o *Bitmap) bool {
	return o != nil && b.prefix == o.prefix && bytes.Equal(b.data, o.data)
}

// index returns the bit of a, and false if it has none.
func (b *Bitmap) index(a netip.Addr) (int, bool) {
	if !b.prefix.Contains(a) { // nor does a prefix contain zones, or IPv4 in IPv6
		return 0, false
	}
	i := int(low(a)-b.network) - 1
	return i, 0 <= i && i < b.size
}

// addr returns the address of bit i, which need not be covered. Where the addresses end, or the high half of one
// would have to change, it returns the zero Addr.
func (b *Bitmap) addr(i int) netip.Addr {
	n := b.network + 1 + uint64(i)
	if b.prefix.Addr().Is4() {
		if n > 1<<32-1 {
			return netip.Addr{}
		}
		return netip.AddrFrom4([4]byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)})
	}
	if n < b.network {
		return netip.Addr{}
	}
	raw := b.prefix.Addr().As16()
	binary.BigEndian.PutUint64(raw[8:], n)
	return netip.AddrFrom16(raw)
}

// notCovered says that a has no bit.
func (b *Bitmap) notCovered(a netip.Addr) error {
	if b.size == 0 {
		return fmt.Errorf("address %s has no bit: the bitmap of %s has none at all, choose a larger range", a, b.prefix)
	}
	return fmt.Errorf("address %s has no bit: the bitmap of %s goes from %s to %s, choose an address of these", a, b.prefix, b.addr(0), b.addr(b.size-1))
}

// at is the byte that has bit i, mask the place of it there.
func (b *Bitmap) at(i int) *byte { return &b.data[len(b.data)-1-i/8] }

func mask(i int) byte { return 1 << (i % 8) }

// low returns the low 64 bits of a as a number, all 32 of an IPv4 address.
func low(a netip.Addr) uint64 {
	raw := a.As16()
	if a.Is4() {
		return uint64(binary.BigEndian.Uint32(raw[12:]))
	}
	return binary.BigEndian.Uint64(raw[8:])
}
