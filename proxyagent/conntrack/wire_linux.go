package conntrack

import (
	"encoding/binary"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink/nl"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/nfnetlink"
)

// What package nl lacks of linux/netfilter/nfnetlink_conntrack.h and nf_conntrack_common.h.
const (
	filter          = 25     // CTA_FILTER
	statusMask      = 26     // CTA_STATUS_MASK
	filterOriginal  = 1      // CTA_FILTER_ORIG_FLAGS
	filterReply     = 2      // CTA_FILTER_REPLY_FLAGS
	tupleZone       = 3      // CTA_TUPLE_ZONE
	protoinfoSCTP   = 3      // CTA_PROTOINFO_SCTP
	sctpState       = 1      // CTA_PROTOINFO_SCTP_STATE
	cookieEchoed    = 3      // SCTP_CONNTRACK_COOKIE_ECHOED of nf_conntrack_sctp.h
	statusSeenReply = 1 << 1 // IPS_SEEN_REPLY

	// CTA_FILTER_F_* of nf_internals.h, which conntrack(8) knows too.
	filterAddr     = 1 << 1
	filterProtocol = 1 << 3
	filterPort     = 1 << 5
)

// filter are the attributes that restrict a dump. Kernels that do not know them ignore them.
func (q Query) filter() nfnetlink.Attrs {
	flags, number := uint32(filterProtocol), func(value uint32) []byte { return binary.NativeEndian.AppendUint32(nil, value) }
	a := nfnetlink.Attrs(nil).Nest(nl.CTA_TUPLE_ORIG, func(a nfnetlink.Attrs) nfnetlink.Attrs {
		if q.Addr.Is4() { // With this filter Linux 5.8 to 6.18 leaves out just what goes to an IPv6 address that is asked for.
			flags |= filterAddr
			a = a.Nest(nl.CTA_TUPLE_IP, func(a nfnetlink.Attrs) nfnetlink.Attrs { return a.Put(nl.CTA_IP_V4_DST, q.Addr.AsSlice()...) })
		}
		return a.Nest(nl.CTA_TUPLE_PROTO, func(a nfnetlink.Attrs) nfnetlink.Attrs {
			a = a.Put(nl.CTA_PROTO_NUM, byte(q.Protocol))
			if q.Port != 0 {
				flags |= filterPort
				a = a.PutNet16(nl.CTA_PROTO_DST_PORT, q.Port)
			}
			return a
		})
	})
	if q.Unanswered {
		a = a.PutNet32(nl.CTA_STATUS, 0).PutNet32(statusMask, statusSeenReply)
	}
	return a.Nest(filter, func(a nfnetlink.Attrs) nfnetlink.Attrs {
		return a.Put(filterOriginal, number(flags)...).Put(filterReply, number(0)...)
	})
}

// identity are the attributes that name one flow. The kernel looks for the tuple, and then compares the ID.
func identity(f Flow) nfnetlink.Attrs {
	a := nfnetlink.Attrs(nil).Nest(nl.CTA_TUPLE_ORIG, func(a nfnetlink.Attrs) nfnetlink.Attrs {
		a = writeTuple(a, f)
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

func writeTuple(a nfnetlink.Attrs, f Flow) nfnetlink.Attrs {
	srcKind, dstKind := uint16(nl.CTA_IP_V4_SRC), uint16(nl.CTA_IP_V4_DST)
	if !f.Destination.Addr().Is4() {
		srcKind, dstKind = nl.CTA_IP_V6_SRC, nl.CTA_IP_V6_DST
	}
	return a.
		Nest(nl.CTA_TUPLE_IP, func(a nfnetlink.Attrs) nfnetlink.Attrs {
			return a.Put(srcKind, f.Source.Addr().AsSlice()...).Put(dstKind, f.Destination.Addr().AsSlice()...)
		}).
		Nest(nl.CTA_TUPLE_PROTO, func(a nfnetlink.Attrs) nfnetlink.Attrs {
			return a.Put(nl.CTA_PROTO_NUM, byte(f.Protocol)).
				PutNet16(nl.CTA_PROTO_SRC_PORT, f.Source.Port()).
				PutNet16(nl.CTA_PROTO_DST_PORT, f.Destination.Port())
		})
}

// readFlow reads an answer, and reports false when it is about no complete flow of a
// protocol that Services have.
func readFlow(answer nfnetlink.Attrs) (Flow, bool) {
	var f Flow
	var there, back tuple
	var state uint8
	for kind, value := range answer.All() {
		switch kind {
		case nl.CTA_TUPLE_ORIG:
			there = readTuple(value)
		case nl.CTA_TUPLE_REPLY:
			back = readTuple(value)
		case nl.CTA_STATUS:
			f.Answered = value.Net32()&statusSeenReply != 0
		case nl.CTA_PROTOINFO:
			state = value.Get(protoinfoSCTP).Get(sctpState).Byte()
		case nl.CTA_ID:
			f.ID = value.Net32()
		case nl.CTA_ZONE:
			f.Zone = value.Net16()
		}
	}
	f.Protocol = model.Protocol(there.protocol)
	if f.Protocol == model.SCTP { // the answer may have been an ABORT
		f.Answered = f.Answered && state >= cookieEchoed
	}
	f.Source, f.Destination, f.SourceZone = netip.AddrPortFrom(there.src, there.srcPort), netip.AddrPortFrom(there.dst, there.dstPort), there.zone
	f.ReplySource = netip.AddrPortFrom(back.src, back.srcPort)
	return f, there.isComplete() && back.isComplete()
}

// tuple is one direction of a flow.
type tuple struct {
	src, dst         netip.Addr
	srcPort, dstPort uint16
	protocol         uint8
	zone             uint16
}

func (t tuple) isComplete() bool {
	return slices.Contains(model.Protocols, model.Protocol(t.protocol)) && t.src.IsValid() && t.dst.IsValid()
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
