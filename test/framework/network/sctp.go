package network

import (
	"encoding/binary"
	"hash/crc32"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// cookieParam is the type of a state cookie (RFC 9260, section 3.3.3).
const cookieParam = 7

// sctpPacket is a packet with one chunk. An INIT ACK carries text as its state cookie.
type sctpPacket struct {
	from, to uint16
	tag      uint32 // of the receiver; 0 in an INIT
	chunk    layers.SCTPChunkType
	initiate uint32 // the sender's tag, in INIT and INIT ACK
	cookie   string
}

func (p sctpPacket) bytes() []byte {
	head := &layers.SCTP{SrcPort: layers.SCTPPort(p.from), DstPort: layers.SCTPPort(p.to), VerificationTag: p.tag}
	chunk := layers.SCTPChunk{Type: p.chunk}
	if p.chunk == layers.SCTPChunkTypeAbort {
		return serialized(head, &layers.SCTPError{SCTPChunk: chunk})
	}
	init := &layers.SCTPInit{
		SCTPChunk: chunk, InitiateTag: p.initiate, InitialTSN: p.initiate,
		AdvertisedReceiverWindowCredit: 65536, OutboundStreams: 1, InboundStreams: 1,
	}
	if p.cookie != "" {
		init.Parameters = []layers.SCTPInitParameter{{Type: cookieParam, Value: []byte(p.cookie)}}
	}
	return serialized(head, init)
}

// parseSCTP reads what bytes writes, and reports false for all else, also for a wrong checksum.
func parseSCTP(b []byte) (p sctpPacket, ok bool) {
	all := gopacket.NewPacket(b, layers.LayerTypeSCTP, gopacket.NoCopy).Layers()
	if len(all) < 2 || !checksumHolds(b) {
		return p, false
	}
	head := all[0].(*layers.SCTP)
	p = sctpPacket{from: uint16(head.SrcPort), to: uint16(head.DstPort), tag: head.VerificationTag}
	switch chunk := all[1].(type) {
	case *layers.SCTPError:
		p.chunk = chunk.Type
	case *layers.SCTPInit:
		p.chunk, p.initiate = chunk.Type, chunk.InitiateTag
		for _, parameter := range chunk.Parameters {
			if parameter.Type == cookieParam {
				p.cookie = string(parameter.Value)
			}
		}
	default:
		return p, false
	}
	return p, true
}

func checksumHolds(b []byte) bool {
	zeroed := append([]byte(nil), b...)
	clear(zeroed[8:12])
	return binary.LittleEndian.Uint32(b[8:]) == crc32.Checksum(zeroed, crc32.MakeTable(crc32.Castagnoli))
}

// stripHeader takes away the IP header that only a raw socket of IPv4 delivers.
func stripHeader(b []byte, f model.Family) []byte {
	if f == model.IPv6 || len(b) == 0 {
		return b
	}
	return b[min(len(b), int(b[0]&15)*4):]
}
