//go:build linux

package network

import (
	"net/netip"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// receivePacketInfo asks the kernel to tell at which address each packet was received, and to let answers start there, also
// where that address is of no interface but of a range of the host.
func receivePacketInfo(conn syscall.Conn, f model.Family) error {
	if f == model.IPv6 {
		if err := setOption(conn, unix.IPPROTO_IPV6, unix.IPV6_FREEBIND); err != nil {
			return err
		}
		return setOption(conn, unix.IPPROTO_IPV6, unix.IPV6_RECVPKTINFO)
	}
	return setOption(conn, unix.IPPROTO_IP, unix.IP_PKTINFO)
}

func setOption(conn syscall.Conn, level, option int) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	if controlErr := raw.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), level, option, 1) }); controlErr != nil {
		return controlErr
	}
	return err
}

// packetInfo reads at which address a packet was received, and returns the control message that lets an answer start from there.
func packetInfo(control []byte, f model.Family) (local netip.Addr, reply []byte) {
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil || len(messages) == 0 {
		return netip.Addr{}, nil
	}
	data := messages[0].Data
	if f == model.IPv6 {
		info := *(*unix.Inet6Pktinfo)(unsafe.Pointer(&data[0]))
		info.Ifindex = 0
		return netip.AddrFrom16(info.Addr), unix.PktInfo6(&info)
	}
	info := *(*unix.Inet4Pktinfo)(unsafe.Pointer(&data[0]))
	return netip.AddrFrom4(info.Addr), unix.PktInfo4(&unix.Inet4Pktinfo{Spec_dst: info.Addr})
}
