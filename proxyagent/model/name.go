package model

import (
	"cmp"
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Family is an IP family. Its zero value is none.
type Family uint8

// The families, by the number that they have in an IP header.
const (
	IPv4 Family = 4
	IPv6 Family = 6
)

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

// String returns IPv4 or IPv6, as the Service API writes it.
func (f Family) String() string {
	if f == IPv4 || f == IPv6 {
		return fmt.Sprintf("IPv%d", uint8(f))
	}
	return fmt.Sprintf("Family(%d)", uint8(f))
}

// Bits is the length of an address in bits.
func (f Family) Bits() int {
	if f == IPv4 {
		return 32
	}
	return 128
}

// Number is AF_INET or AF_INET6 of Linux: that of the family in each kind of message to the kernel.
func (f Family) Number() uint8 {
	if f == IPv6 {
		return 10
	}
	return 2
}

// Unspecified is 0.0.0.0 or ::.
func (f Family) Unspecified() netip.Addr {
	if f == IPv6 {
		return netip.IPv6Unspecified()
	}
	return netip.IPv4Unspecified()
}

// Single is the network of one address.
func Single(a netip.Addr) netip.Prefix { return netip.PrefixFrom(a, a.BitLen()) }

// Inside reports whether an address is in one of some networks.
func Inside(networks []netip.Prefix, a netip.Addr) bool {
	return slices.ContainsFunc(networks, func(p netip.Prefix) bool { return p.Contains(a) })
}

// Protocol is a transport protocol by its IANA number. Its zero value is none.
type Protocol uint8

// The protocols of a Service port.
const (
	TCP  Protocol = 6
	UDP  Protocol = 17
	SCTP Protocol = 132
)

// Protocols are all of them, in a fixed order.
var Protocols = []Protocol{TCP, UDP, SCTP}

var protocolNames = map[Protocol]string{TCP: "TCP", UDP: "UDP", SCTP: "SCTP"}

// String returns TCP, UDP or SCTP, as the Service API writes it.
func (p Protocol) String() string {
	if name, known := protocolNames[p]; known {
		return name
	}
	return fmt.Sprintf("Protocol(%d)", uint8(p))
}

// ParseProtocol reads what the Service API writes; empty is TCP, its default. False for all else.
func ParseProtocol(s string) (Protocol, bool) {
	for p, name := range protocolNames {
		if cmp.Or(s, "TCP") == name {
			return p, true
		}
	}
	return 0, false
}

// ServiceName names a Service. Its zero value names none.
type ServiceName struct{ Namespace, Name string }

// String returns namespace/name.
func (n ServiceName) String() string { return n.Namespace + "/" + n.Name }

// Compare orders by namespace, then by name.
func (n ServiceName) Compare(o ServiceName) int {
	return cmp.Or(strings.Compare(n.Namespace, o.Namespace), strings.Compare(n.Name, o.Name))
}

// PortName names one port of a Service. Port is its name in the Service, empty for an unnamed one.
type PortName struct {
	Service  ServiceName
	Port     string
	Protocol Protocol
}

// String returns namespace/name:port/protocol, without an empty port name: "default/web:http/TCP".
func (n PortName) String() string {
	if n.Port == "" {
		return n.Service.String() + "/" + n.Protocol.String()
	}
	return n.Service.String() + ":" + n.Port + "/" + n.Protocol.String()
}

// Compare orders by Service, then by port, then by protocol.
func (n PortName) Compare(o PortName) int {
	return cmp.Or(n.Service.Compare(o.Service), strings.Compare(n.Port, o.Port), cmp.Compare(n.Protocol, o.Protocol))
}

// Digest returns 65 bits as 13 characters, for names of chains and sets: no state, no user text.
func Digest(s string) string {
	sum := sha256.Sum256([]byte(s))
	return base32.StdEncoding.EncodeToString(sum[:])[:13]
}
