package conntrack

import (
	"context"
	"net/netip"

	"github.com/vishvananda/netlink/nl"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/nfnetlink"
)

// Count sets the value of each address, which are of one family, to the number of connections that
// were made to it, of all protocols. Those of TCP that have ended and are only remembered do not
// count. It reads the whole table; after an error the values mean nothing.
func (k Kernel) Count(ctx context.Context, of map[netip.Addr]int) error {
	return nfnetlink.Again(ctx, func() error {
		var family model.Family
		for addr := range of {
			of[addr], family = 0, model.FamilyOf(addr)
		}
		return k.conn.Dump(request(nl.IPCTNL_MSG_CT_GET, family, nil), func(answer nfnetlink.Attrs) {
			addr := readTuple(answer.Get(nl.CTA_TUPLE_ORIG)).dst.Addr()
			if _, asked := of[addr]; asked && !ended(answer) {
				of[addr]++
			}
		})
	})
}

// ended reports whether a TCP connection has nothing to carry; one open in one direction has.
func ended(connection nfnetlink.Attrs) bool {
	state := connection.Get(nl.CTA_PROTOINFO).Get(nl.CTA_PROTOINFO_TCP).Get(nl.CTA_PROTOINFO_TCP_STATE).Number()
	return state == nl.TCP_CONNTRACK_LAST_ACK || state == nl.TCP_CONNTRACK_TIME_WAIT || state == nl.TCP_CONNTRACK_CLOSE
}
