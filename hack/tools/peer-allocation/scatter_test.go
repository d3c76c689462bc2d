package main

import (
	"net/netip"
	"testing"
)

func TestScatterMeetsEveryDynamicAddressOnce(t *testing.T) {
	for _, text := range []string{"10.96.0.0/20", "10.96.0.0/16", "10.96.0.0/12"} {
		prefix := netip.MustParsePrefix(text)
		size := 1<<(32-prefix.Bits()) - 2 - staticBand
		seen := make(map[netip.Addr]bool, size)
		for i := range size {
			seen[scatter(prefix, i)] = true
		}
		if len(seen) != size {
			t.Errorf("%s: %d addresses in %d steps", text, len(seen), size)
		}
		first, last := netip.MustParseAddr("10.96.1.1"), lastOf(prefix).Prev()
		for a := range seen {
			if a.Less(first) || last.Less(a) {
				t.Fatalf("%s: %s is not in the dynamic band", text, a)
			}
		}
	}
}

// lastOf returns the broadcast address.
func lastOf(prefix netip.Prefix) netip.Addr {
	b := prefix.Addr().As4()
	for bit := prefix.Bits(); bit < 32; bit++ {
		b[bit/8] |= 0x80 >> (bit % 8)
	}
	return netip.AddrFrom4(b)
}
