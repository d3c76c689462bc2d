//go:build linux

package network

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSCTPPackets(t *testing.T) {
	for name, want := range map[string]sctpPacket{
		"INIT":                    {from: 1, to: 65535, chunk: chunkInit, initiate: 7},
		"INIT ACK with a cookie":  {from: 2, to: 3, tag: 7, chunk: chunkInitAck, initiate: 8, cookie: "pod1 a b"},
		"a cookie that is padded": {from: 2, to: 3, tag: 7, chunk: chunkInitAck, initiate: 8, cookie: "pod11 a b"},
		"ABORT":                   {from: 2, to: 3, tag: 7, chunk: chunkAbort},
	} {
		t.Run(name, func(t *testing.T) {
			packet := want.bytes()
			got, ok := parseSCTP(packet)
			if diff := cmp.Diff(want, got, cmp.AllowUnexported(sctpPacket{})); diff != "" || !ok {
				t.Errorf("read %t (-want +got):\n%s", ok, diff)
			}
			if len(packet)%4 != 0 {
				t.Errorf("%d bytes are no whole words", len(packet))
			}
			packet[0] ^= 1
			if _, ok := parseSCTP(packet); ok {
				t.Error("a broken packet was read")
			}
		})
	}
}
