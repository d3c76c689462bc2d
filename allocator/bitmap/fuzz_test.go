package bitmap_test

import (
	"bytes"
	"errors"
	"math/big"
	"net/netip"
	"slices"
	"testing"

	"github.com/clusterip-operator/clusterip-operator/allocator/bitmap"
)

// FuzzParse: nothing panics, what is read is written as the same bytes without the zeros in front, and is what the
// oracle reads; what is refused is refused for a reason that can be told.
func FuzzParse(f *testing.F) {
	for _, spec := range []string{
		"10.96.0.0/16", "10.96.0.0/12", "10.0.0.0/28", "10.0.0.0/23", "fd00:10:96::/112", "fd00:10:96::/108", "fd00::/118",
		"10.0.0.0/31", "10.0.0.0/32", "fd00::/127", "fd00::/128", // hardly an address, or none
		"255.255.255.240/28", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:fff0/124", // the ends of the address space
		"10.096.0.0/016", "::010.096.0.0/112", "FD00::/112", // other spellings
		"10.0.0.1/24", "10.0.0.0/11", "::ffff:10.0.0.0/120", "fe80::%1/112", "/", "", // no ranges of bitmaps
		"30000-32767", "32767-30000", "1-", // node ports
	} {
		f.Add(spec, []byte{})
		f.Add(spec, []byte{0, 0, 2, 1})
		f.Add(spec, bytes.Repeat([]byte{0xff}, 33))
	}
	f.Fuzz(func(t *testing.T, spec string, data []byte) {
		b, err := bitmap.Parse(spec, data)
		if err != nil {
			checkRefusal(t, spec, data, b, err)
			return
		}
		if got, want := b.Data(), bytes.TrimLeft(data, "\x00"); !bytes.Equal(got, want) {
			t.Fatalf("%q: %x is written as %x", spec, data, got)
		}
		o := oracle{b.Prefix(), new(big.Int).SetBytes(data)}
		if got := slices.Collect(b.All()); !slices.Equal(got, o.all()) || len(got) != b.Len() || b.Cap() != o.capacity() {
			t.Fatalf("%q: %x is %d of %d addresses, %s", spec, data, b.Len(), b.Cap(), got)
		}
		if again := parse(t, b.String(), b.Data()); !again.Equal(b) {
			t.Fatalf("%q is written as %s, which is read as %s", spec, b, again)
		}
	})
}

func checkRefusal(t *testing.T, spec string, data []byte, b *bitmap.Bitmap, err error) {
	t.Helper()
	var strange *bitmap.SpecError
	var over *bitmap.OverflowError
	switch {
	case b != nil:
		t.Fatalf("%q, %x: a bitmap and %v", spec, data, err)
	case errors.As(err, &strange):
		if strange.Spec != spec || strange.Reason == "" {
			t.Fatalf("%q: %v", spec, err)
		}
	case errors.As(err, &over):
		n := new(big.Int).SetBytes(data)
		if n.Bit(over.First) != 1 || over.First < over.Max || over.Bits < 1 || n.BitLen() < over.Max+over.Bits {
			t.Fatalf("%q, %x: %v", spec, data, err)
		}
	case !errors.Is(err, bitmap.ErrUnset) && !errors.Is(err, bitmap.ErrNodePorts):
		t.Fatalf("%q, %x: %v", spec, data, err)
	}
}

// FuzzRoundTrip makes addresses of bytes, three for each, a bitmap of the addresses, bytes of the bitmap, and
// addresses of these.
func FuzzRoundTrip(f *testing.F) {
	prefixes := lengths()
	f.Add(uint8(0), []byte{})
	f.Add(uint8(0), []byte{0, 0, 0, 0x0f, 0xff, 0xfd, 0x0f, 0xff, 0xfe})         // an IPv4 /12: the first, the last, the first again
	f.Add(uint8(48), []byte{0, 0, 0, 0, 0, 13, 0, 0, 14})                        // a /28: likewise
	f.Add(uint8(63), []byte{0, 0, 0, 0, 0xff, 0xfe, 0, 0xff, 0xff})              // an IPv6 /108: likewise
	f.Add(uint8(146), []byte{0, 0, 0, 0, 0, 0})                                  // the last /128 there is: nothing
	f.Add(uint8(3), []byte{0, 0, 63, 0, 0, 64, 0, 0, 63, 0, 0, 127, 0, 0, 0x80}) // the ends of words, and one twice
	f.Fuzz(func(t *testing.T, which uint8, raw []byte) {
		o := newOracle(prefixes[int(which)%len(prefixes)])
		b, n := newBitmap(t, o.prefix), 0
		want := map[netip.Addr]bool{}
		for size := o.capacity(); size > 0 && len(raw) >= 3; raw = raw[3:] {
			i := (int(raw[0])<<16 | int(raw[1])<<8 | int(raw[2])) % size
			add(t, b, o.addr(i))
			o.set(i, 1)
			want[o.addr(i)] = true
		}
		data := b.Data()
		if !bytes.Equal(data, o.number.Bytes()) {
			t.Fatalf("%s: %x, want %x", o.prefix, data, o.number.Bytes())
		}
		for a := range parse(t, b.String(), data).All() {
			if !want[a] {
				t.Fatalf("%s: %s was never added", o.prefix, a)
			}
			n++
		}
		if n != len(want) || b.Len() != n {
			t.Fatalf("%s: %d addresses of %d", o.prefix, n, len(want))
		}
	})
}
