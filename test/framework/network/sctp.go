//go:build linux

package network

import (
	"encoding/binary"
	"hash/crc32"
	"strings"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// The chunks that are spoken here (RFC 9260, section 3.2).
const (
	chunkInit    = 1
	chunkInitAck = 2
	chunkAbort   = 6
)

const (
	sctpHeader  = 12
	cookieParam = 7
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sctpPacket is a packet with one chunk. An INIT ACK carries text as its state cookie.
type sctpPacket struct {
	from, to uint16
	tag      uint32 // of the receiver; 0 in an INIT
	chunk    byte
	initiate uint32 // the sender's tag, in INIT and INIT ACK
	cookie   string
}

func (p sctpPacket) bytes() []byte {
	b := make([]byte, sctpHeader, 128)
	binary.BigEndian.PutUint16(b[0:], p.from)
	binary.BigEndian.PutUint16(b[2:], p.to)
	binary.BigEndian.PutUint32(b[4:], p.tag)
	b = p.appendChunk(b)
	binary.LittleEndian.PutUint32(b[8:], crc32.Checksum(b, castagnoli)) // over zeros in its own target
	return b
}

func (p sctpPacket) appendChunk(b []byte) []byte {
	if p.chunk == chunkAbort {
		return append(b, chunkAbort, 0, 0, 4)
	}
	cookie := p.cookie + strings.Repeat(" ", (4-len(p.cookie)%4)%4) // whole words
	length := 20
	if cookie != "" {
		length += 4 + len(cookie)
	}
	b = append(b, p.chunk, 0, byte(length>>8), byte(length))
	b = binary.BigEndian.AppendUint32(b, p.initiate)
	b = binary.BigEndian.AppendUint32(b, 65536) // receiver window
	b = append(b, 0, 1, 0, 1)                   // one stream each way
	b = binary.BigEndian.AppendUint32(b, p.initiate)
	if cookie == "" {
		return b
	}
	b = append(b, 0, cookieParam, byte((4+len(cookie))>>8), byte(4+len(cookie)))
	return append(b, cookie...)
}

// parseSCTP reads what bytes writes, and reports false for all else, also for a wrong checksum.
func parseSCTP(b []byte) (sctpPacket, bool) {
	if len(b) < sctpHeader+4 || !checksumHolds(b) {
		return sctpPacket{}, false
	}
	p := sctpPacket{
		from:  binary.BigEndian.Uint16(b[0:]),
		to:    binary.BigEndian.Uint16(b[2:]),
		tag:   binary.BigEndian.Uint32(b[4:]),
		chunk: b[sctpHeader],
	}
	rest := b[sctpHeader+4:]
	if p.chunk == chunkAbort {
		return p, true
	}
	if len(rest) < 16 {
		return sctpPacket{}, false
	}
	p.initiate = binary.BigEndian.Uint32(rest)
	if rest = rest[16:]; len(rest) > 4 && rest[1] == cookieParam {
		p.cookie = strings.TrimRight(string(rest[4:]), " ")
	}
	return p, true
}

func checksumHolds(b []byte) bool {
	zeroed := append([]byte(nil), b...)
	clear(zeroed[8:sctpHeader])
	return binary.LittleEndian.Uint32(b[8:]) == crc32.Checksum(zeroed, castagnoli)
}

// stripHeader takes away the IP header that a raw socket of IPv4 delivers; one of IPv6 delivers none.
func stripHeader(b []byte, f model.Family) []byte {
	if f == model.IPv6 || len(b) == 0 {
		return b
	}
	return b[min(len(b), int(b[0]&15)*4):]
}
