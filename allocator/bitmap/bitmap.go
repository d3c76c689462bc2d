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
	// maxHostBits is the most host bits that a range may have: API servers refuse to start with more.
	maxHostBits = 20
	// maxSize6: no IPv6 address after the first 65536 of a range, network address included, has a bit.
	maxSize6 = 1 << 16
)

// Bitmap is the set of used addresses of one Service range, as the legacy allocator keeps it. Make
// one with New or Parse: the zero value is not usable. It is not safe for concurrent use.
//
// It holds one bit per covered address, used or not: at most 128 KiB. Covers, Contains, Add, Remove
// and Len take a few instructions and allocate nothing; All, Data, Clone and Equal read all bytes.
type Bitmap struct {
	// prefix is masked and passes check.
	prefix netip.Prefix
	// network is the low half of the network address; all addresses of the range share the high half.
	network uint64
	// size is the number of bits.
	size int
	// data has bit i at bit i%8 of byte len-1-i/8, as API servers write it; bits from size on are 0.
	data []byte
	// used is the number of bits that are set.
	used int
}

// New returns the empty bitmap of p, ignoring its host bits. The error says what to choose if p is
// invalid, IPv4-mapped, or has more than 20 host bits (IPv4 shorter than /12, IPv6 than /108).
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

// String returns the range as the API server writes it into the RangeAllocation: in canonical CIDR
// notation. It may therefore be spelled differently than what was parsed.
func (b *Bitmap) String() string { return b.prefix.String() }

// Len is the number of addresses in use.
func (b *Bitmap) Len() int { return b.used }

// Covers reports whether a has a bit. These have none: the network address, the IPv4 broadcast
// address, IPv6 addresses after the first 65536 of a range, IPv4-mapped ones, ones with a zone.
func (b *Bitmap) Covers(a netip.Addr) bool {
	_, ok := b.index(a)
	return ok
}

// Contains reports whether a is in use. It is false for addresses that are not covered.
func (b *Bitmap) Contains(a netip.Addr) bool {
	i, ok := b.index(a)
	return ok && *b.at(i)&mask(i) != 0
}

// Add marks a as used, even if it is so already. It is an error if a has no bit.
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

// Remove marks a as unused. It does nothing if a is not in use, or has no bit and so never was.
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

// All returns the used addresses in ascending order. The sequence reads 8 addresses at a time, only
// when it gets there: it may or may not notice what is added or removed meanwhile.
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

// Data returns the bytes that the API server would write. If no address is used they are empty but
// not nil: an encoder may tell the two apart, and the API server writes an empty field.
func (b *Bitmap) Data() []byte { return append([]byte{}, trimmed(b.data)...) }

// trimmed returns data without the zero bytes in front.
func trimmed(data []byte) []byte { return bytes.TrimLeft(data, "\x00") }

// Clone returns a copy that shares nothing with b.
func (b *Bitmap) Clone() *Bitmap {
	c := *b
	c.data = slices.Clone(b.data)
	return &c
}

// Equal reports whether o has the same range and the same used addresses. No Bitmap equals nil.
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

// addr returns the address of bit i, which need not be covered. It returns the zero Addr behind the
// last address, and where the high half would have to change.
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
