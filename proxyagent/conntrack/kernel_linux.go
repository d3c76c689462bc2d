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

// Kernel returns the connection tracking of the kernel, in the network namespace of the calling thread, which every thread of a process
// shares unless it asked for another one. It may be used by several goroutines.
func Kernel() (Table, error) {
	conn, err := nfnetlink.Open()
	return kernel{conn}, err
}

type kernel struct{ conn *nfnetlink.Conn }

// Flows implements Table.
func (k kernel) Flows(ctx context.Context, q Query, wanted func(Flow) bool) (flows []Flow, err error) {
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

// dump asks once. Kernels before 5.8, and before 5.14 for those that are unanswered, send more than
// is asked for.
func (k kernel) dump(q Query, each func(Flow)) error {
	request := nfnetlink.Request{
		Subsystem: unix.NFNL_SUBSYS_CTNETLINK, Command: nl.IPCTNL_MSG_CT_GET, Family: q.Family.Number(), Attrs: q.filter(),
	}
	return k.conn.Dump(request, func(answer nfnetlink.Attrs) {
		if f, ok := readFlow(answer); ok {
			each(f)
		}
	})
}

// Delete implements Table.
func (k kernel) Delete(ctx context.Context, f Flow) (bool, error) {
	request := nfnetlink.Request{
		Subsystem: unix.NFNL_SUBSYS_CTNETLINK, Command: nl.IPCTNL_MSG_CT_DELETE,
		Family: model.FamilyOf(f.Destination.Addr()).Number(), Attrs: identity(f),
	}
	err := nfnetlink.Again(ctx, func() error { return k.conn.Do(request) })
	if errors.Is(err, syscall.ENOENT) {
		return false, nil
	}
	return err == nil, err
}

// LocalAddrs implements Table.
func (k kernel) LocalAddrs() ([]netip.Addr, error) { return LocalAddrs() }

// LocalAddrs returns the addresses of the node's interfaces, of both families.
func LocalAddrs() ([]netip.Addr, error) {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return nil, err
	}
	var addrs []netip.Addr
	for _, a := range all {
		if network, ok := a.(*net.IPNet); ok {
			if addr, ok := netip.AddrFromSlice(network.IP); ok {
				addrs = append(addrs, addr.Unmap())
			}
		}
	}
	return addrs, nil
}
