package allocator

import (
	"net/netip"
	"testing"
)

func TestFamily(t *testing.T) {
	for text, want := range map[string]Family{"10.0.0.1": IPv4, "fd00::1": IPv6, "::ffff:10.0.0.1": IPv6, "fe80::1%eth0": IPv6} {
		if got := FamilyOf(addr(text)); got != want {
			t.Errorf("the family of %s is %s, want %s", text, got, want)
		}
	}
	if got := FamilyOf(netip.Addr{}); got != 0 || (Range{}).Family() != 0 {
		t.Errorf("the family of no address is %s, of no range %s", got, (Range{}).Family())
	}
	if IPv4.Other() != IPv6 || IPv6.Other() != IPv4 {
		t.Errorf("the other of IPv4 is %s, of IPv6 %s", IPv4.Other(), IPv6.Other())
	}
	for f, want := range map[Family]string{IPv4: "IPv4", IPv6: "IPv6", 0: "IPv0"} {
		if f.String() != want {
			t.Errorf("family %d is %q, want %q", f, f, want)
		}
	}
}
