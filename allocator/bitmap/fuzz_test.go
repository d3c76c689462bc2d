package bitmap_test

import (
	"bytes"
	"errors"
	"math/big"
	"slices"
	"strings"
	"testing"

	"github.com/clusterip-operator/clusterip-operator/allocator/bitmap"
)

// FuzzParse: nothing panics, what is read is written as the same bytes without leading zeros, and
// is what the oracle reads; what is refused is refused for a reason that can be told.
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
		if got := slices.Collect(b.All()); !slices.Equal(got, o.all()) || len(got) != b.Len() {
			t.Fatalf("%q: %x is %d addresses, %s", spec, data, b.Len(), got)
		}
		if again := parse(t, b.String(), b.Data()); !again.Equal(b) {
			t.Fatalf("%q is written as %s, which is read as %s", spec, b, again)
		}
	})
}

func checkRefusal(t *testing.T, spec string, data []byte, b *bitmap.Bitmap, err error) {
	t.Helper()
	known := errors.Is(err, bitmap.ErrUnset) || errors.Is(err, bitmap.ErrNodePorts) ||
		strings.Contains(err.Error(), "cannot be the range of a bitmap: ") || strings.Contains(err.Error(), "set beyond them")
	if b != nil || !known {
		t.Fatalf("%q, %x: %v, %v", spec, data, b, err)
	}
}
