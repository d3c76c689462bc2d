package main

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
			seen[scatter(prefix, i)] = true
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

func TestFirstBitIsBehindTheNetworkAddress(t *testing.T) {
	for _, text := range []string{"10.96.0.0/16", "fd00:10:96::/108"} {
		prefix := netip.MustParsePrefix(text)
		for _, i := range []int{0, 1, 4711} {
			if got, want := plus(prefix.Addr().Next(), uint64(bit(prefix, i))), scatter(prefix, i); got != want {
				t.Errorf("%s: bit %d is of %s, the address is %s", text, bit(prefix, i), got, want)
			}
		}
	}
}
