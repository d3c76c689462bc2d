package conntrack

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"syscall"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/nfnetlink"
)

// Kernel is connection tracking as the kernel of one network namespace does it. It may be used by
// several goroutines, which wait for each other. The zero value is of no use.
type Kernel struct{ conn *nfnetlink.Conn }

// Open reaches connection tracking in the network namespace of the calling thread, which every
// thread of a process shares unless it asked for another one.
func Open() (Kernel, error) {
	conn, err := nfnetlink.Open()
	return Kernel{conn}, err
}

// Close ends the connection, which keeps the network namespace alive.
func (k Kernel) Close() { k.conn.Close() }

// Flows implements Table.
func (k Kernel) Flows(ctx context.Context, q Query, wanted func(Flow) bool) (flows []Flow, err error) {
	err = nfnetlink.Again(ctx, func() error {
		flows = nil
		return k.dump(q, func(f Flow) {
			if f.Protocol == q.Protocol && (!q.Unanswered || !f.Answered) && wanted(f) {
				flows = append(flows, f)
			}
		})
	})
	return flows, err
}

// dump asks once. Kernels before 5.8 (for unanswered flows 5.14) send more than is asked for.
func (k Kernel) dump(q Query, each func(Flow)) error {
	return k.conn.Dump(request(nl.IPCTNL_MSG_CT_GET, q.Family, q.filter()), func(answer nfnetlink.Attrs) {
		if f, ok := readFlow(answer); ok {
			each(f)
		}
	})
}

// Delete implements Table.
func (k Kernel) Delete(ctx context.Context, f Flow) (bool, error) {
	err := nfnetlink.Again(ctx, func() error {
		return k.conn.Do(request(nl.IPCTNL_MSG_CT_DELETE, model.FamilyOf(f.Destination.Addr()), identity(f)))
	})
	if errors.Is(err, syscall.ENOENT) {
		return false, nil
	}
	return err == nil, err
}

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

// LocalAddrs implements Table.
func (k Kernel) LocalAddrs() ([]netip.Addr, error) { return LocalAddrs() }

// LocalAddrs returns the addresses of the node's interfaces, of both families.
func LocalAddrs() ([]netip.Addr, error) {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return nil, err
	}
	var addrs []netip.Addr
	for _, a := range all {
		if network, err := netip.ParsePrefix(a.String()); err == nil {
			addrs = append(addrs, network.Addr().Unmap())
		}
	}
	return addrs, nil
}

func request(command uint8, family model.Family, attrs nfnetlink.Attrs) nfnetlink.Request {
	return nfnetlink.Request{Subsystem: unix.NFNL_SUBSYS_CTNETLINK, Command: command, Family: family.Number(), Attrs: attrs}
}
