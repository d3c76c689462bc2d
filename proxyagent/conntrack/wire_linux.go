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

// identity are the attributes that name a flow: the kernel finds the tuple, then compares the ID.
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
	there, back := readTuple(answer.Get(nl.CTA_TUPLE_ORIG)), readTuple(answer.Get(nl.CTA_TUPLE_REPLY))
	f := Flow{
		Protocol: there.protocol, Source: there.src, Destination: there.dst, ReplySource: back.src,
		Answered: answer.Get(nl.CTA_STATUS).Number()&statusSeenReply != 0,
		ID:       uint32(answer.Get(nl.CTA_ID).Number()),
		Zone:     uint16(answer.Get(nl.CTA_ZONE).Number()), SourceZone: there.zone,
	}
	if f.Protocol == model.SCTP { // the answer may have been an ABORT
		state := answer.Get(nl.CTA_PROTOINFO).Get(protoinfoSCTP).Get(sctpState).Number()
		f.Answered = f.Answered && state >= cookieEchoed
	}
	return f, there.isComplete() && back.isComplete()
}

// tuple is one direction of a flow.
type tuple struct {
	protocol model.Protocol
	src, dst netip.AddrPort
	zone     uint16
}

func (t tuple) isComplete() bool {
	return slices.Contains(model.Protocols, t.protocol) && t.src.IsValid() && t.dst.IsValid()
}

func readTuple(value nfnetlink.Attrs) tuple {
	ip, ports := value.Get(nl.CTA_TUPLE_IP), value.Get(nl.CTA_TUPLE_PROTO)
	end := func(v4, v6, port uint16) netip.AddrPort {
		addr, ok := netip.AddrFromSlice(ip.Get(v4))
		if !ok {
			addr, _ = netip.AddrFromSlice(ip.Get(v6))
		}
		return netip.AddrPortFrom(addr, uint16(ports.Get(port).Number()))
	}
	return tuple{
		protocol: model.Protocol(ports.Get(nl.CTA_PROTO_NUM).Number()),
		src:      end(nl.CTA_IP_V4_SRC, nl.CTA_IP_V6_SRC, nl.CTA_PROTO_SRC_PORT),
		dst:      end(nl.CTA_IP_V4_DST, nl.CTA_IP_V6_DST, nl.CTA_PROTO_DST_PORT),
		zone:     uint16(value.Get(tupleZone).Number()),
	}
}
