package ipset

import (
	"net/netip"
	"syscall"

	"github.com/vishvananda/netlink/nl"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/nfnetlink"
)

// listHeader requests sets without entries (IPSET_FLAG_LIST_HEADER in linux's ipset/ip_set.h).
const listHeader = 1 << 2

// header are the properties of a set that exists.
type header struct {
	name     string
	kind     Type
	family   uint8
	limit    int
	expires  bool
	elements int
	from, to int
}

// fits reports whether a set that exists can serve as s.
func (h header) fits(s Set) bool {
	if h.kind != s.Type || h.expires != (s.Timeout != 0) {
		return false
	}
	if s.Type == BitmapPort {
		return h.from == 0 && h.to == 65535
	}
	return h.family == s.Family.Number() && h.limit >= maxElements
}

// begin are the attributes that each request begins with.
func begin(set string) nfnetlink.Attrs {
	a := nfnetlink.Attrs(nil).Put(nl.IPSET_ATTR_PROTOCOL, nl.IPSET_PROTOCOL)
	if set == "" {
		return a
	}
	return a.PutString(nl.IPSET_ATTR_SETNAME, set)
}

// creation are the attributes of the request to create s.
func creation(s Set) nfnetlink.Attrs {
	family := s.Family.Number()
	if s.Type == BitmapPort {
		family = syscall.AF_UNSPEC
	}
	return begin(s.Name).
		PutString(nl.IPSET_ATTR_TYPENAME, string(s.Type)).
		Put(nl.IPSET_ATTR_REVISION, revisions[s.Type]).
		Put(nl.IPSET_ATTR_FAMILY, family).
		Nest(nl.IPSET_ATTR_DATA, func(a nfnetlink.Attrs) nfnetlink.Attrs { return properties(a, s) })
}

func properties(a nfnetlink.Attrs, s Set) nfnetlink.Attrs {
	if s.Type == BitmapPort {
		a = a.PutNet16(nl.IPSET_ATTR_PORT_FROM, 0).PutNet16(nl.IPSET_ATTR_PORT_TO, 65535)
	} else {
		a = a.PutNet32(nl.IPSET_ATTR_HASHSIZE, s.hashSize()).PutNet32(nl.IPSET_ATTR_MAXELEM, maxElements)
	}
	if s.Timeout != 0 {
		a = a.PutNet32(nl.IPSET_ATTR_TIMEOUT, s.Timeout)
	}
	return a
}

// addition are the attributes of the request to add or delete entries of a set. The line number is
// for `ipset restore`, the other user of such messages; zero makes the kernel answer as usual.
func addition(set string, entries []Entry) nfnetlink.Attrs {
	a := append(make(nfnetlink.Attrs, 0, 128+bytesPerEntry*len(entries)), begin(set)...)
	a = a.PutNet32(nl.IPSET_ATTR_LINENO, 0)
	return a.Nest(nl.IPSET_ATTR_ADT, func(a nfnetlink.Attrs) nfnetlink.Attrs {
		for _, e := range entries {
			a = a.Nest(nl.IPSET_ATTR_DATA, e.write)
		}
		return a
	})
}

// write appends the parts of e. What is zero is not said: the type of the set need not be known.
func (e Entry) write(a nfnetlink.Attrs) nfnetlink.Attrs {
	if e.Addr.IsValid() {
		a = writeAddr(a, nl.IPSET_ATTR_IP, e.Addr)
	}
	if e.Port != 0 || !e.Addr.IsValid() {
		a = a.PutNet16(nl.IPSET_ATTR_PORT, e.Port)
	}
	if e.Protocol != 0 {
		a = a.Put(nl.IPSET_ATTR_PROTO, uint8(e.Protocol))
	}
	if e.Source.IsValid() {
		a = writeAddr(a, nl.IPSET_ATTR_IP2, e.Source.Addr())
		if !e.Source.IsSingleIP() { // Not known to sets of single addresses, and the default of the other types.
			a = a.Put(nl.IPSET_ATTR_CIDR2, uint8(e.Source.Bits()))
		}
	}
	return a
}

func writeAddr(a nfnetlink.Attrs, kind uint16, addr netip.Addr) nfnetlink.Attrs {
	return a.Nest(kind, func(a nfnetlink.Attrs) nfnetlink.Attrs {
		if addr.Is4() {
			v4 := addr.As4()
			return a.PutNet(nl.IPSET_ATTR_IPADDR_IPV4, v4[:]...)
		}
		v6 := addr.As16()
		return a.PutNet(nl.IPSET_ATTR_IPADDR_IPV6, v6[:]...)
	})
}

// readHeader reads the part of an answer that is about the set.
func readHeader(answer nfnetlink.Attrs) header {
	data := answer.Get(nl.IPSET_ATTR_DATA)
	number := func(kind uint16) int { return int(data.Get(kind).Number()) }
	return header{
		name:     answer.Get(nl.IPSET_ATTR_SETNAME).Text(),
		kind:     Type(answer.Get(nl.IPSET_ATTR_TYPENAME).Text()),
		family:   uint8(answer.Get(nl.IPSET_ATTR_FAMILY).Number()),
		limit:    number(nl.IPSET_ATTR_MAXELEM),
		expires:  data.Get(nl.IPSET_ATTR_TIMEOUT) != nil,
		elements: number(nl.IPSET_ATTR_ELEMENTS),
		from:     number(nl.IPSET_ATTR_PORT_FROM), to: number(nl.IPSET_ATTR_PORT_TO),
	}
}

func readEntry(data nfnetlink.Attrs) Entry {
	e := Entry{
		Addr:     readAddr(data.Get(nl.IPSET_ATTR_IP)),
		Protocol: model.Protocol(data.Get(nl.IPSET_ATTR_PROTO).Number()),
		Port:     uint16(data.Get(nl.IPSET_ATTR_PORT).Number()),
	}
	if source := readAddr(data.Get(nl.IPSET_ATTR_IP2)); source.IsValid() {
		length := source.BitLen()
		if cidr := data.Get(nl.IPSET_ATTR_CIDR2); cidr != nil {
			length = int(cidr.Number())
		}
		e.Source = netip.PrefixFrom(source, length)
	}
	return e
}

func readAddr(value nfnetlink.Attrs) netip.Addr {
	for _, bytes := range value.All() {
		if addr, ok := netip.AddrFromSlice(bytes); ok {
			return addr
		}
	}
	return netip.Addr{}
}
