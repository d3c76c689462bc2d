package conntrack

import (
	"context"
	"net/netip"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/nfnetlink"
)

// Counter counts connections of one family, in the connection tracking of the kernel; see [Kernel] for which network namespace. It has a socket of its own, so that nobody waits
// for it. It may be used by several goroutines, which wait for each other.
type Counter struct {
	family model.Family
	conn   *nfnetlink.Conn
}

// NewCounter returns a Counter.
func NewCounter(f model.Family) (*Counter, error) {
	conn, err := nfnetlink.Open()
	return &Counter{f, conn}, err
}

// Count sets the value of each address to the number of connections that were made to it, of all protocols. Those of TCP that have ended and are only remembered do not count. It reads
// the whole table; after an error the values mean nothing.
func (c *Counter) Count(ctx context.Context, of map[netip.Addr]int) error {
	request := nfnetlink.Request{Subsystem: unix.NFNL_SUBSYS_CTNETLINK, Command: nl.IPCTNL_MSG_CT_GET, Family: c.family.Number()}
	return nfnetlink.Again(ctx, func() error {
		for addr := range of {
			of[addr] = 0
		}
		return c.conn.Dump(request, func(answer nfnetlink.Attrs) {
			there, state := readConnection(answer)
			if _, asked := of[there.dst]; asked && (there.protocol != unix.IPPROTO_TCP || !ended(state)) {
				of[there.dst]++
			}
		})
	})
}

// readConnection reads of an answer what the client sent, and the state of TCP.
func readConnection(answer nfnetlink.Attrs) (there tuple, tcpState uint8) {
	for kind, value := range answer.All() {
		switch kind {
		case nl.CTA_TUPLE_ORIG:
			there = readTuple(value)
		case nl.CTA_PROTOINFO:
			tcpState = value.Get(nl.CTA_PROTOINFO_TCP).Get(nl.CTA_PROTOINFO_TCP_STATE).Byte()
		}
	}
	return there, tcpState
}

// ended reports whether a TCP connection in this state has nothing more to carry. Before that, also one that is open in one direction only does.
func ended(state uint8) bool {
	return state == nl.TCP_CONNTRACK_LAST_ACK || state == nl.TCP_CONNTRACK_TIME_WAIT || state == nl.TCP_CONNTRACK_CLOSE
}
