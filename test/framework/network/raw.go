package network

import (
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"unsafe"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"golang.org/x/sys/unix"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// SendRaw puts an IPv4 packet on the wire of a namespace's interface, to the MAC address of another
// one's, past routing and past all checks: what a hostile neighbour can do.
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
	ip := ipHeader(from, to, layers.IPProtocolUDP)
	udp := &layers.UDP{SrcPort: layers.UDPPort(from.Port()), DstPort: layers.UDPPort(to.Port())}
	_ = udp.SetNetworkLayerForChecksum(ip)
	return serialized(ip, udp, gopacket.Payload(payload))
}

// TCPSegment builds an IPv4 packet with a segment without data. Its ports are filled in.
func TCPSegment(from, to netip.AddrPort, segment layers.TCP) []byte {
	ip := ipHeader(from, to, layers.IPProtocolTCP)
	segment.SrcPort, segment.DstPort = layers.TCPPort(from.Port()), layers.TCPPort(to.Port())
	_ = segment.SetNetworkLayerForChecksum(ip)
	return serialized(ip, &segment)
}

func ipHeader(from, to netip.AddrPort, protocol layers.IPProtocol) *layers.IPv4 {
	return &layers.IPv4{Version: 4, TTL: 64, Id: 1, Protocol: protocol, SrcIP: from.Addr().AsSlice(), DstIP: to.Addr().AsSlice()}
}

// serialized fills in lengths and checksums. It panics when layers do not fit: a mistake in a test.
func serialized(layers ...gopacket.SerializableLayer) []byte {
	buffer := gopacket.NewSerializeBuffer()
	if err := gopacket.SerializeLayers(buffer, gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}, layers...); err != nil {
		panic(err)
	}
	return buffer.Bytes()
}

// receivePacketInfo asks the kernel to tell each packet's local address, and to let answers start
// there, also where that is of no interface but of a range of the host.
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

// packetInfo reads a packet's local address, and returns the control message to answer from it.
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
