package allocator

import (
	"net/netip"
	"strconv"
)

// Family is an IP family. Its zero value is none.
type Family uint8

// The families, by the number that they have in an IP header.
const (
	IPv4 Family = 4
	IPv6 Family = 6
)

// Families are both, IPv4 first.
var Families = []Family{IPv4, IPv6}

// FamilyOf returns the family of an address: IPv6 for a mapped IPv4 one, none for an invalid one.
func FamilyOf(a netip.Addr) Family {
	switch {
	case a.Is4():
		return IPv4
	case a.Is6():
		return IPv6
	default:
		return 0
	}
}

// Other returns IPv6 for IPv4, and IPv4 for IPv6.
func (f Family) Other() Family { return IPv4 + IPv6 - f }

// String returns IPv4 or IPv6, as the Service API writes it, and IPv0 for none.
func (f Family) String() string { return "IPv" + strconv.Itoa(int(f)) }
