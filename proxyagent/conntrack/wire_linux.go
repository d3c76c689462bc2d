package conntrack

import (
	"encoding/binary"
	"net/netip"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/nfnetlink"
)

// What package nl lacks of linux/netfilter/nfnetlink_conntrack.h and nf_conntrack_common.h.
const (
	filter          = 25     // CTA_FILTER
	filterOriginal  = 1      // CTA_FILTER_ORIG_FLAGS
	filterReply     = 2      // CTA_FILTER_REPLY_FLAGS
	filterProtocol  = 1 << 3 // CTA_FILTER_F_CTA_PROTO_NUM of nf_internals.h, which conntrack(8) knows too
	tupleZone       = 3      // CTA_TUPLE_ZONE
	statusSeenReply = 1 << 1 // IPS_SEEN_REPLY
)

// onlyUDP are the attributes that restrict a dump to UDP. Kernels that do not know them ignore them.
func onlyUDP() nfnetlink.Attrs {
	flags := func(value uint32) []byte { return binary.NativeEndian.AppendUint32(nil, value) }
	return nfnetlink.Attrs(nil).
		Nest(nl.CTA_TUPLE_ORIG, func(a nfnetlink.Attrs) nfnetlink.Attrs {
			return a.Nest(nl.CTA_TUPLE_PROTO, func(a nfnetlink.Attrs) nfnetlink.Attrs { return a.Put(nl.CTA_PROTO_NUM, unix.IPPROTO_UDP) })
		}).
		Nest(filter, func(a nfnetlink.Attrs) nfnetlink.Attrs {
			return a.Put(filterOriginal, flags(filterProtocol)...).Put(filterReply, flags(0)...)
		})
}

// identity are the attributes that name one flow. The kernel looks for the tuple, and then compares the ID.
func identity(f Flow) nfnetlink.Attrs {
	a := nfnetlink.Attrs(nil).Nest(nl.CTA_TUPLE_ORIG, func(a nfnetlink.Attrs) nfnetlink.Attrs {
		a = writeTuple(a, f.Source, f.Destination)
		if f.SourceZone != 0 {
			a = a.PutNet16(tupleZone, f.SourceZone)
		}
		return a
	})
	if f.Zone != 0 {
		a = a.PutNet16(nl.CTA_ZONE, f.Zone)
	}
	return a.PutNet32(nl.CTA_ID, f.ID)
}

func writeTuple(a nfnetlink.Attrs, src, dst netip.AddrPort) nfnetlink.Attrs {
	srcKind, dstKind := uint16(nl.CTA_IP_V4_SRC), uint16(nl.CTA_IP_V4_DST)
	if !dst.Addr().Is4() {
		srcKind, dstKind = nl.CTA_IP_V6_SRC, nl.CTA_IP_V6_DST
	}
	return a.
		Nest(nl.CTA_TUPLE_IP, func(a nfnetlink.Attrs) nfnetlink.Attrs {
			return a.Put(srcKind, src.Addr().AsSlice()...).Put(dstKind, dst.Addr().AsSlice()...)
		}).
		Nest(nl.CTA_TUPLE_PROTO, func(a nfnetlink.Attrs) nfnetlink.Attrs {
			return a.Put(nl.CTA_PROTO_NUM, unix.IPPROTO_UDP).
				PutNet16(nl.CTA_PROTO_SRC_PORT, src.Port()).
				PutNet16(nl.CTA_PROTO_DST_PORT, dst.Port())
		})
}

// readFlow reads an answer, and reports false when it is about no complete UDP flow.
func readFlow(answer nfnetlink.Attrs) (Flow, bool) {
	var f Flow
	var there, back tuple
	for kind, value := range answer.All() {
		switch kind {
		case nl.CTA_TUPLE_ORIG:
			there = readTuple(value)
		case nl.CTA_TUPLE_REPLY:
			back = readTuple(value)
		case nl.CTA_STATUS:
			f.Answered = value.Net32()&statusSeenReply != 0
		case nl.CTA_ID:
			f.ID = value.Net32()
		case nl.CTA_ZONE:
			f.Zone = value.Net16()
		}
	}
	f.Source, f.Destination, f.SourceZone = netip.AddrPortFrom(there.src, there.srcPort), netip.AddrPortFrom(there.dst, there.dstPort), there.zone
	f.ReplySource = netip.AddrPortFrom(back.src, back.srcPort)
	return f, there.isUDP() && back.isUDP()
}

// tuple is one direction of a flow.
type tuple struct {
	src, dst         netip.Addr
	srcPort, dstPort uint16
	protocol         uint8
	zone             uint16
}

func (t tuple) isUDP() bool {
	return t.protocol == unix.IPPROTO_UDP && t.src.IsValid() && t.dst.IsValid()
}

func readTuple(value nfnetlink.Attrs) tuple {
	var t tuple
	for kind, value := range value.All() {
		switch kind {
		case nl.CTA_TUPLE_IP:
			t.readAddrs(value)
		case nl.CTA_TUPLE_PROTO:
			t.readPorts(value)
		case tupleZone:
			t.zone = value.Net16()
		}
	}
	return t
}

func (t *tuple) readAddrs(value nfnetlink.Attrs) {
	for kind, value := range value.All() {
		addr, _ := netip.AddrFromSlice(value)
		switch kind {
		case nl.CTA_IP_V4_SRC, nl.CTA_IP_V6_SRC:
			t.src = addr
		case nl.CTA_IP_V4_DST, nl.CTA_IP_V6_DST:
			t.dst = addr
		}
	}
}

func (t *tuple) readPorts(value nfnetlink.Attrs) {
	for kind, value := range value.All() {
		switch kind {
		case nl.CTA_PROTO_NUM:
			t.protocol = value.Byte()
		case nl.CTA_PROTO_SRC_PORT:
			t.srcPort = value.Net16()
		case nl.CTA_PROTO_DST_PORT:
			t.dstPort = value.Net16()
		}
	}
}
