package seed

import (
	"net/netip"
	"testing"
)

func TestScatterMeetsEveryDynamicAddressOnce(t *testing.T) {
	for _, tc := range []struct {
		prefix, first, last string
	}{
		{"10.96.0.0/20", "10.96.1.1", "10.96.15.254"},
		{"10.96.0.0/16", "10.96.1.1", "10.96.255.254"},
		{"10.96.0.0/12", "10.96.1.1", "10.111.255.254"},
		{"fd00:10:96::/112", "fd00:10:96::101", "fd00:10:96::ffff"},
		{"fd00:10:96::/108", "fd00:10:96::101", "fd00:10:96::ffff"}, // what lies beyond has no bit
	} {
		prefix := netip.MustParsePrefix(tc.prefix)
		size := allocatable(prefix) - staticBand
		seen := make(map[netip.Addr]bool, size)
		for i := range size {
			a := scatter(prefix, i)
			if want := plus(prefix.Addr().Next(), uint64(bit(prefix, i))); a != want {
				t.Fatalf("%s: bit %d is of %s, the address is %s", tc.prefix, bit(prefix, i), want, a)
			}
			seen[a] = true
		}
		if len(seen) != size {
			t.Errorf("%s: %d addresses in %d steps", tc.prefix, len(seen), size)
		}
		first, last := netip.MustParseAddr(tc.first), netip.MustParseAddr(tc.last)
		if !seen[first] || !seen[last] {
			t.Errorf("%s: %s and %s are not both met", tc.prefix, first, last)
		}
		for a := range seen {
			if a.Less(first) || last.Less(a) {
				t.Fatalf("%s: %s is not in the dynamic band", tc.prefix, a)
			}
		}
	}
}

// TestScatterBeyondABitmap goes through all of an IPv6 prefix of more addresses than a bitmap has
// bits, but for the first of each 65,536.
func TestScatterBeyondABitmap(t *testing.T) {
	prefix := netip.MustParsePrefix("fd00:10:96::/110")
	size := 4 * (allocatable(prefix) - staticBand)
	seen := make(map[netip.Addr]bool, size)
	for i := range size {
		a := scatter(prefix, i)
		if !prefix.Contains(a) {
			t.Fatalf("the %d-th address, %s, is not in %s", i, a, prefix)
		}
		seen[a] = true
	}
	if len(seen) != size {
		t.Errorf("%d addresses in %d steps", len(seen), size)
	}
}
