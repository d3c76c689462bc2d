//go:build linux

package network

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// SendRaw puts an IPv4 packet on the wire of an interface of one namespace, to the MAC address of an interface of another one, past
// routing and past all checks: what a hostile neighbour can do.
func (n *Namespace) SendRaw(iface string, to *Namespace, toIface string, packet []byte) error {
	target, err := to.iface(toIface)
	if err != nil {
		return err
	}
	source, err := n.iface(iface)
	if err != nil {
		return err
	}
	address := &unix.SockaddrLinklayer{Protocol: htons(unix.ETH_P_IP), Ifindex: source.Index, Halen: 6}
	copy(address.Addr[:], target.HardwareAddr)
	return n.Do(func() error {
		fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("opening a packet socket: %w", err)
		}
		defer func() { _ = unix.Close(fd) }()
		return unix.Sendto(fd, packet, 0, address)
	})
}

func (n *Namespace) iface(name string) (i *net.Interface, err error) {
	err = n.Do(func() error {
		i, err = net.InterfaceByName(name)
		return err
	})
	return i, err
}

func htons(v uint16) uint16 { return v<<8 | v>>8 }

// UDPPacket builds an IPv4 packet with a datagram in it.
func UDPPacket(from, to netip.AddrPort, payload string) []byte {
	datagram := binary.BigEndian.AppendUint16(nil, from.Port())
	datagram = binary.BigEndian.AppendUint16(datagram, to.Port())
	datagram = binary.BigEndian.AppendUint16(datagram, uint16(8+len(payload)))
	datagram = append(datagram, 0, 0) // no checksum, as IPv4 allows
	return ipPacket(from.Addr(), to.Addr(), unix.IPPROTO_UDP, append(datagram, payload...))
}

// TCP flags for [TCPSegment].
const (
	FIN byte = 1 << iota
	SYN
	RST
	_
	ACK
)

// TCPSegment builds an IPv4 packet with a segment without data.
func TCPSegment(from, to netip.AddrPort, flags byte, sequence uint32) []byte {
	segment := binary.BigEndian.AppendUint16(nil, from.Port())
	segment = binary.BigEndian.AppendUint16(segment, to.Port())
	segment = binary.BigEndian.AppendUint32(segment, sequence)
	segment = binary.BigEndian.AppendUint32(segment, 1)     // acknowledges nothing that was sent
	segment = append(segment, 5<<4, 0x10, 1, 0, 0, 0, 0, 0) // header of 5 words, ACK, window 256
	pseudo := append(from.Addr().AsSlice(), to.Addr().AsSlice()...)
	pseudo = append(pseudo, 0, unix.IPPROTO_TCP, 0, byte(len(segment)))
	binary.BigEndian.PutUint16(segment[16:], checksum(append(pseudo, segment...)))
	return ipPacket(from.Addr(), to.Addr(), unix.IPPROTO_TCP, segment)
}

func ipPacket(from, to netip.Addr, protocol byte, payload []byte) []byte {
	length := 20 + len(payload)
	h := []byte{0x45, 0, byte(length >> 8), byte(length), 0, 1, 0, 0, 64, protocol, 0, 0}
	h = append(append(h, from.AsSlice()...), to.AsSlice()...)
	binary.BigEndian.PutUint16(h[10:], checksum(h))
	return append(h, payload...)
}

// checksum is the one of RFC 1071.
func checksum(b []byte) uint16 {
	var sum uint32
	for i := 0; i < len(b)-1; i += 2 {
		sum += uint32(binary.BigEndian.Uint16(b[i:]))
	}
	if len(b)%2 == 1 {
		sum += uint32(b[len(b)-1]) << 8
	}
	for sum>>16 != 0 {
		sum = sum&0xffff + sum>>16
	}
	return ^uint16(sum)
}

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
