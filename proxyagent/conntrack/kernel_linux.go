package conntrack

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"syscall"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/nfnetlink"
)

// Kernel returns the connection tracking of the kernel, in the network namespace of the calling thread, which every thread of a process
// shares unless it asked for another one. It may be used by several goroutines. Where it cannot be opened, every method says so.
func Kernel() Table {
	k := &kernel{}
	k.conn, k.err = nfnetlink.Open()
	if k.err == nil {
		k.routes, k.err = netlink.NewHandle(unix.NETLINK_ROUTE)
	}
	return k
}

type kernel struct {
	conn   *nfnetlink.Conn
	routes *netlink.Handle
	err    error
	// asking lets one goroutine at a time read addresses: a Handle is not made for more.
	asking sync.Mutex
}

// Flows implements Table. Kernels from 5.8 on leave out other protocols themselves, older ones send all flows.
func (k *kernel) Flows(ctx context.Context, f model.Family, wanted func(Flow) bool) ([]Flow, error) {
	if k.err != nil {
		return nil, k.err
	}
	request := nfnetlink.Request{
		Subsystem: unix.NFNL_SUBSYS_CTNETLINK, Command: nl.IPCTNL_MSG_CT_GET, Family: addressFamily(f), Attrs: onlyUDP(),
	}
	var flows []Flow
	err := nfnetlink.Again(ctx, func() error {
		flows = nil
		return k.conn.Dump(request, func(answer nfnetlink.Attrs) {
			if flow, ok := readFlow(answer); ok && wanted(flow) {
				flows = append(flows, flow)
			}
		})
	})
	if err != nil {
		return nil, needsCapability(err)
	}
	return flows, nil
}

// Delete implements Table.
func (k *kernel) Delete(ctx context.Context, f Flow) (bool, error) {
	if k.err != nil {
		return false, k.err
	}
	request := nfnetlink.Request{
		Subsystem: unix.NFNL_SUBSYS_CTNETLINK, Command: nl.IPCTNL_MSG_CT_DELETE,
		Family: addressFamily(model.FamilyOf(f.Destination.Addr())), Attrs: identity(f),
	}
	err := nfnetlink.Again(ctx, func() error { return k.conn.Do(request) })
	if errors.Is(err, syscall.ENOENT) {
		return false, nil
	}
	return err == nil, needsCapability(err)
}

// LocalAddrs implements Table.
func (k *kernel) LocalAddrs(ctx context.Context, f model.Family) ([]netip.Addr, error) {
	if k.err != nil {
		return nil, k.err
	}
	k.asking.Lock()
	defer k.asking.Unlock()
	var list []netlink.Addr
	err := nfnetlink.Again(ctx, func() (err error) {
		list, err = k.routes.AddrList(nil, int(addressFamily(f)))
		return err
	})
	if err != nil {
		return nil, err
	}
	addrs := make([]netip.Addr, 0, len(list))
	for _, a := range list {
		if addr, ok := netip.AddrFromSlice(a.IP); ok {
			addrs = append(addrs, addr.Unmap())
		}
	}
	return addrs, nil
}

func needsCapability(err error) error {
	if errors.Is(err, syscall.EPERM) {
		return fmt.Errorf("%w: CAP_NET_ADMIN is needed", err)
	}
	return err
}

// addressFamily is AF_INET or AF_INET6.
func addressFamily(f model.Family) uint8 {
	if f == model.IPv4 {
		return unix.AF_INET
	}
	return unix.AF_INET6
}
