package bitmap_test

import (
	"bytes"
	"encoding/hex"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/clusterip-operator/clusterip-operator/allocator/bitmap"
)

// byEquality compares addresses by ==, and takes no list for an empty one.
var byEquality = cmp.Options{cmpopts.EquateEmpty(), cmp.Comparer(func(a, b netip.Addr) bool { return a == b })}

// zeroBytes is n zero bytes in hexadecimal, ones n bytes with all bits set.
func zeroBytes(n int) string { return strings.Repeat("00", n) }
func ones(n int) string      { return strings.Repeat("ff", n) }

// literals were computed by hand. Addresses are written "first-last" where they are many.
var literals = []struct {
	name, spec string
	addrs      []string
	data       string // hexadecimal
}{
	{"kubernetes and kube-dns", "10.96.0.0/16", []string{"10.96.0.1", "10.96.0.10"}, "0201"},
	{"the drawing of the package", "10.0.0.0/28", []string{"10.0.0.1", "10.0.0.2", "10.0.0.10"}, "0203"},

	{"empty", "10.0.0.0/24", nil, ""},
	{"the first", "10.0.0.0/24", []string{"10.0.0.1"}, "01"},
	{"the end of a word", "10.0.0.0/24", []string{"10.0.0.64"}, "80" + zeroBytes(7)},
	{"the last", "10.0.0.0/24", []string{"10.0.0.254"}, "20" + zeroBytes(31)},
	{"full", "10.0.0.0/24", []string{"10.0.0.1-10.0.0.254"}, "3f" + ones(31)},

	{".255 and .0 in the middle", "10.0.2.0/23", []string{"10.0.2.255", "10.0.3.0"}, "c0" + zeroBytes(31)},
	{"odd length, the last", "10.0.2.0/23", []string{"10.0.3.254"}, "20" + zeroBytes(63)},
	{"a /31 has none", "10.0.0.0/31", nil, ""},
	{"a /32 has none", "10.0.0.0/32", nil, ""},
	{"the largest, the last", "10.96.0.0/12", []string{"10.111.255.254"}, "20" + zeroBytes(131071)},
	{"the end of IPv4", "255.255.255.240/28", []string{"255.255.255.254"}, "2000"},

	{"IPv6, the first", "fd00:10:96::/112", []string{"fd00:10:96::1"}, "01"},
	{"IPv6, the last is usable", "fd00:10:96::/112", []string{"fd00:10:96::ffff"}, "40" + zeroBytes(8191)},
	{"IPv6, full", "fd00:10:96::/112", []string{"fd00:10:96::1-fd00:10:96::ffff"}, "7f" + ones(8191)},
	{"IPv6 larger than a /112, the last", "fd00:10:90::/108", []string{"fd00:10:90::ffff"}, "40" + zeroBytes(8191)},
	{"IPv6 a bit smaller than a /112, the last", "fd00:10:90::8000/113", []string{"fd00:10:90::ffff"}, "40" + zeroBytes(4095)},
	{"IPv6, a /127 has one", "fd00::/127", []string{"fd00::1"}, "01"},
	{"IPv6, a /128 has none", "fd00::/128", nil, ""},
	{"the end of IPv6", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:fff0/124", []string{"ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"}, "4000"},
}

// spread returns the addresses that a literal stands for.
func spread(literal []string) (list []netip.Addr) {
	for _, s := range literal {
		first, last, many := strings.Cut(s, "-")
		if !many {
			last = first
		}
		list = append(list, netip.MustParseAddr(first))
		for end := netip.MustParseAddr(last); list[len(list)-1] != end; {
			list = append(list, list[len(list)-1].Next())
		}
	}
	return list
}

func TestLiterals(t *testing.T) {
	for _, tc := range literals {
		t.Run(tc.name, func(t *testing.T) {
			addrs := spread(tc.addrs)
			want, err := hex.DecodeString(tc.data)
			if err != nil {
				t.Fatal(err)
			}
			made := newBitmap(t, netip.MustParsePrefix(tc.spec))
			add(t, made, addrs...)
			read := parse(t, tc.spec, want)
			for how, b := range map[string]*bitmap.Bitmap{"made": made, "read": read} {
				if got := b.Data(); !bytes.Equal(got, want) {
					t.Errorf("%s: Data = %x, want %x", how, got, want)
				}
				if got := slices.Collect(b.All()); !slices.Equal(got, addrs) { // cmp is slow on a million of them
					t.Errorf("%s: All (-want +got):\n%s", how, cmp.Diff(addrs, got, byEquality))
				}
				if b.Len() != len(addrs) {
					t.Errorf("%s: Len = %d, want %d", how, b.Len(), len(addrs))
				}
				if b.String() != tc.spec || b.Prefix() != netip.MustParsePrefix(tc.spec) {
					t.Errorf("%s: String = %q, Prefix = %s", how, b, b.Prefix())
				}
			}
			if !made.Equal(read) || !read.Equal(made) {
				t.Error("what was made and what was read are not equal")
			}
		})
	}
}

// TestEveryLength compares bitmaps of all densities and of all valid lengths with the oracle.
func TestEveryLength(t *testing.T) {
	rng := seeded(1)
	for _, p := range lengths() {
		t.Run(p.String(), func(t *testing.T) {
			o := newOracle(p)
			check(t, o) // empty
			if o.capacity() == 0 {
				return
			}
			for _, i := range []int{0, o.capacity() - 1, rng.IntN(o.capacity())} { // single
				o = newOracle(p)
				o.set(i, 1)
				check(t, o)
			}
			shares := []int{1, 30, 500, 970, 1000}
			if o.capacity() > 1<<16 {
				shares = []int{500} // the oracle is slow
			}
			for _, share := range shares {
				o = newOracle(p)
				o.fill(rng, share)
				check(t, o)
			}
		})
	}
}

// check makes a bitmap of the addresses of o, reads another from its bytes, and compares all three.
func check(t *testing.T, o oracle) {
	t.Helper()
	want, data := o.all(), o.number.Bytes()
	made := newBitmap(t, o.prefix)
	add(t, made, want...)
	read := parse(t, o.prefix.String(), data)
	for how, b := range map[string]*bitmap.Bitmap{"made": made, "read": read} {
		switch {
		case b.Len() != len(want):
			t.Fatalf("%s: Len = %d, want %d", how, b.Len(), len(want))
		case !slices.Equal(slices.Collect(b.All()), want):
			t.Fatalf("%s: of %d addresses All gives others", how, len(want))
		case !bytes.Equal(b.Data(), data):
			t.Fatalf("%s: Data is not that of the oracle", how)
		}
	}
	if !made.Equal(read) {
		t.Fatal("what was made and what was read are not equal")
	}
	checkContains(t, o, read)
}

// checkContains asks about the addresses around the range, and about some in it.
func checkContains(t *testing.T, o oracle, b *bitmap.Bitmap) {
	t.Helper()
	network := o.prefix.Addr()
	ask := []netip.Addr{network.Prev(), network, network.Next(), {}, netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::1")}
	for i := 0; i < o.capacity(); i += 1 + o.capacity()/100 {
		ask = append(ask, o.addr(i))
	}
	if o.capacity() > 0 {
		last := o.addr(o.capacity() - 1)
		ask = append(ask, last, last.Next(), last.Next().Next())
	}
	for _, a := range ask {
		i := o.bit(a)
		if got := b.Covers(a); got != (i >= 0) {
			t.Fatalf("Covers(%s) = %v", a, got)
		}
		if got, want := b.Contains(a), i >= 0 && o.number.Bit(i) == 1; got != want {
			t.Fatalf("Contains(%s) = %v, want %v", a, got, want)
		}
	}
}

// TestRandomSteps adds and removes, also around the range, and compares each step with the oracle.
func TestRandomSteps(t *testing.T) {
	for seed, spec := range []string{"10.96.0.0/16", "10.0.0.0/28", "10.0.0.0/23", "10.0.0.0/31", "fd00::/118", "fd00::/108", "fd00::/127"} {
		t.Run(spec, func(t *testing.T) {
			rng := seeded(uint64(seed))
			o := newOracle(netip.MustParsePrefix(spec))
			b, n := newBitmap(t, o.prefix), 0
			for range 3000 {
				n += step(t, rng, b, o)
				if b.Len() != n {
					t.Fatalf("Len = %d, want %d", b.Len(), n)
				}
			}
			if !bytes.Equal(b.Data(), o.number.Bytes()) || !slices.Equal(slices.Collect(b.All()), o.all()) {
				t.Error("the bitmap is not what the oracle has")
			}
		})
	}
}

// step does one thing to both, and returns by how much the number of used addresses should grow.
func step(t *testing.T, rng *rand.Rand, b *bitmap.Bitmap, o oracle) int {
	t.Helper()
	a := o.addr(rng.IntN(min(o.capacity(), 500)+4) - 1) // the network address, and three that may not be covered
	i, before := o.bit(a), 0
	if i >= 0 {
		before = int(o.number.Bit(i))
	}
	if rng.IntN(3) == 0 {
		b.Remove(a)
		if i >= 0 {
			o.set(i, 0)
		}
		return -before
	}
	if err := b.Add(a); (i < 0) != (err != nil) {
		t.Fatalf("Add(%s): %v", a, err)
	}
	if i < 0 {
		return 0
	}
	o.set(i, 1)
	return 1 - before
}

func TestAddRefuses(t *testing.T) {
	const ends = "goes from 10.0.0.1 to 10.0.0.254, choose an address of these"
	for _, tc := range []struct{ spec, addr, want string }{
		{"10.0.0.0/24", "10.0.0.0", ends},
		{"10.0.0.0/24", "10.0.0.255", ends},
		{"10.0.0.0/24", "fd00::1", ends},
		{"10.0.0.0/24", "::ffff:10.0.0.1", ends},
		{"fd00::/112", "fd00::", "goes from fd00::1 to fd00::ffff, choose an address of these"},
		{"fe80::/112", "fe80::1%eth0", "goes from fe80::1 to fe80::ffff, choose an address of these"},
		{"fd00::/108", "fd00::1:0", "goes from fd00::1 to fd00::ffff, choose an address of these"},
		{"fd00::/112", "fd01::1", "goes from fd00::1 to fd00::ffff, choose an address of these"}, // same low half
		{"10.0.0.2/31", "10.0.0.3", "has none at all, choose a larger range"},
		{"fd00::1/128", "fd00::1", "has none at all, choose a larger range"},
	} {
		b := newBitmap(t, netip.MustParsePrefix(tc.spec))
		a := netip.MustParseAddr(tc.addr)
		want := "address " + tc.addr + " has no bit: the bitmap of " + tc.spec + " " + tc.want
		if err := b.Add(a); err == nil || err.Error() != want {
			t.Errorf("Add(%s): %v, want %s", a, err, want)
		}
		b.Remove(a)
		if b.Len() != 0 || b.Contains(a) || len(b.Data()) != 0 {
			t.Error("something was added all the same")
		}
	}
}

// TestNoAddressIsNotNil: the API server writes an empty field and not none.
func TestNoAddressIsNotNil(t *testing.T) {
	for _, spec := range []string{"10.0.0.0/24", "10.0.0.0/32", "fd00::/128"} {
		if got := parse(t, spec, nil).Data(); got == nil || len(got) != 0 {
			t.Errorf("%s: Data = %#v, want []byte{}", spec, got)
		}
	}
}

func TestDataIsACopy(t *testing.T) {
	b := parse(t, "10.0.0.0/24", []byte{2, 1})
	b.Data()[0] = 0xff
	if got := b.Data(); !bytes.Equal(got, []byte{2, 1}) {
		t.Errorf("Data = %x", got)
	}
	data := []byte{2, 1}
	b = parse(t, "10.0.0.0/24", data)
	data[0] = 0
	if b.Len() != 2 {
		t.Errorf("Len = %d, want 2", b.Len())
	}
}

func TestClone(t *testing.T) {
	b := parse(t, "10.0.0.0/24", []byte{2, 1})
	c := b.Clone()
	if !c.Equal(b) || c.Len() != 2 {
		t.Fatalf("the clone has %d addresses", c.Len())
	}
	add(t, c, netip.MustParseAddr("10.0.0.2"))
	b.Remove(netip.MustParseAddr("10.0.0.10"))
	if !bytes.Equal(c.Data(), []byte{2, 3}) || !bytes.Equal(b.Data(), []byte{1}) || c.Len() != 3 || b.Len() != 1 {
		t.Errorf("the clone has %x, what was cloned %x", c.Data(), b.Data())
	}
}

func TestEqual(t *testing.T) {
	b := parse(t, "10.0.0.0/24", []byte{2, 1})
	for spec, tc := range map[string]struct {
		data []byte
		want bool
	}{
		"10.000.0.0/24": {[]byte{0, 2, 1}, true}, // spelled otherwise
		"10.0.0.0/24":   {[]byte{2, 2}, false},
		"10.0.1.0/24":   {[]byte{2, 1}, false},
		"10.0.0.0/25":   {[]byte{2, 1}, false},
	} {
		if got := b.Equal(parse(t, spec, tc.data)); got != tc.want {
			t.Errorf("%s, %x: Equal = %v", spec, tc.data, got)
		}
	}
	if b.Equal(nil) {
		t.Error("a bitmap equals none")
	}
}

// TestAllWhileRemoving: a caller that empties a bitmap while walking over it meets every address.
func TestAllWhileRemoving(t *testing.T) {
	b := parse(t, "10.0.0.0/24", bytes.Repeat([]byte{0x1f}, 32))
	n := b.Len()
	for a := range b.All() {
		b.Remove(a)
		n--
	}
	if n != 0 || b.Len() != 0 {
		t.Errorf("%d were not met, %d are left", n, b.Len())
	}
}
