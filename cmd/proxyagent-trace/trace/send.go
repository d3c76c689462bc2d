//go:build linux

package trace

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// outside and inside are the two ends of the wire over which packets come in.
const (
	outside = "cipa-trace0"
	inside  = "cipa-trace1"
)

// port is one of those that connections are made from.
func port() uint16 { return uint16(32768 + rand.N(28000)) }

// send has the node receive or send it. EPERM is no fault: a rule dropped what the node sends.
func (p packet) send() error {
	if p.in != "" {
		return p.comeIn()
	}
	domain := unix.AF_INET
	if p.family() == model.IPv6 {
		domain = unix.AF_INET6
	}
	text, err := p.bytes()
	if err != nil {
		return err
	}
	err = raw(domain, unix.IPPROTO_RAW, func(s int) error { return unix.Sendto(s, text, 0, p.address()) }) // the text has the header of IP
	if errors.Is(err, unix.EPERM) {
		return nil
	}
	return err
}

// raw opens a socket for one use.
func raw(domain, protocol int, use func(s int) error) error {
	s, err := unix.Socket(domain, unix.SOCK_RAW|unix.SOCK_CLOEXEC, protocol)
	if err != nil {
		return err
	}
	return errors.Join(use(s), unix.Close(s))
}

func (p packet) address() unix.Sockaddr {
	if a := p.dst.Addr(); a.Is4() {
		return &unix.SockaddrInet4{Addr: a.As4()}
	}
	return &unix.SockaddrInet6{Addr: p.dst.Addr().As16()}
}

// comeIn sends the packet over our own pair of interfaces, whose far end redirects it to p.in:
// rules on interfaces and the reverse path filter see a real packet. TUN needs the node's /dev.
func (p packet) comeIn() error {
	in, err := netlink.LinkByName(p.in)
	if err != nil {
		return fmt.Errorf("looking for the interface %s: %w", p.in, err)
	}
	wire, far, err := lay()
	if err != nil {
		return err
	}
	redirect := netlink.NewMirredAction(in.Attrs().Index)
	redirect.MirredAction = netlink.TCA_INGRESS_REDIR
	qdisc := &netlink.Ingress{QdiscAttrs: netlink.QdiscAttrs{LinkIndex: far.Attrs().Index, Handle: netlink.MakeHandle(0xffff, 0), Parent: netlink.HANDLE_INGRESS}}
	filter := &netlink.U32{ // without a selector it matches everything, and is older than matchall
		FilterAttrs: netlink.FilterAttrs{LinkIndex: far.Attrs().Index, Parent: netlink.MakeHandle(0xffff, 0), Priority: 1, Protocol: unix.ETH_P_ALL},
		Actions:     []netlink.Action{redirect},
	}
	if err := errors.Join(netlink.QdiscAdd(qdisc), netlink.FilterAdd(filter)); err != nil {
		return fmt.Errorf("redirecting packets to %s: %w", p.in, err)
	}
	return p.transmit(wire, far.Attrs().HardwareAddr)
}

// lay makes the pair of interfaces. Without addresses nothing else is sent over it.
func lay() (wire, far netlink.Link, err error) {
	if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: outside}, PeerName: inside}); err != nil {
		return nil, nil, fmt.Errorf("adding the interface %s: %w", outside, err)
	}
	ends := make([]netlink.Link, 2)
	for i, name := range []string{outside, inside} {
		if ends[i], err = netlink.LinkByName(name); err != nil {
			return nil, nil, fmt.Errorf("looking for %s: %w", name, err)
		}
		// A kernel without IPv6 has no address to generate.
		_ = netlink.LinkSetIP6AddrGenMode(ends[i], 1)
		if err := netlink.LinkSetUp(ends[i]); err != nil {
			return nil, nil, fmt.Errorf("setting %s up: %w", name, err)
		}
	}
	return ends[0], ends[1], nil
}

// transmit bypasses the queue of the interface, which drops all until the kernel has seen it is up.
func (p packet) transmit(from netlink.Link, to net.HardwareAddr) error {
	kind := layers.EthernetTypeIPv4
	if p.family() == model.IPv6 {
		kind = layers.EthernetTypeIPv6
	}
	text, err := p.bytes(&layers.Ethernet{SrcMAC: from.Attrs().HardwareAddr, DstMAC: to, EthernetType: kind})
	if err != nil {
		return err
	}
	return raw(unix.AF_PACKET, 0, func(s int) error {
		if err := unix.SetsockoptInt(s, unix.SOL_PACKET, unix.PACKET_QDISC_BYPASS, 1); err != nil {
			return err
		}
		return unix.Sendto(s, text, 0, &unix.SockaddrLinklayer{Ifindex: from.Attrs().Index, Protocol: nl.Swap16(uint16(kind))})
	})
}

// bytes are a SYN, empty datagram or INIT behind headers. Connection tracking checks its checksum.
func (p packet) bytes(below ...gopacket.SerializableLayer) ([]byte, error) {
	ip, network := p.ip()
	transport := p.transport()
	if t, ok := transport[0].(interface {
		SetNetworkLayerForChecksum(l gopacket.NetworkLayer) error
	}); ok {
		if err := t.SetNetworkLayerForChecksum(network); err != nil {
			return nil, err
		}
	}
	b := gopacket.NewSerializeBuffer()
	err := gopacket.SerializeLayers(b, gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}, append(append(below, ip), transport...)...)
	return b.Bytes(), err
}

func (p packet) ip() (gopacket.SerializableLayer, gopacket.NetworkLayer) {
	src, dst := p.src.Addr().AsSlice(), p.dst.Addr().AsSlice()
	if p.family() == model.IPv6 {
		ip := &layers.IPv6{Version: 6, FlowLabel: uint32(p.mark), NextHeader: layers.IPProtocol(p.protocol), HopLimit: 64, SrcIP: src, DstIP: dst}
		return ip, ip
	}
	ip := &layers.IPv4{Version: 4, Id: p.mark, TTL: 64, Protocol: layers.IPProtocol(p.protocol), SrcIP: src, DstIP: dst}
	return ip, ip
}

func (p packet) transport() []gopacket.SerializableLayer {
	src, dst := p.src.Port(), p.dst.Port()
	switch p.protocol {
	case model.UDP:
		return []gopacket.SerializableLayer{&layers.UDP{SrcPort: layers.UDPPort(src), DstPort: layers.UDPPort(dst)}}
	case model.SCTP:
		return []gopacket.SerializableLayer{
			&layers.SCTP{SrcPort: layers.SCTPPort(src), DstPort: layers.SCTPPort(dst)},
			&layers.SCTPInit{SCTPChunk: layers.SCTPChunk{Type: layers.SCTPChunkTypeInit}, InitiateTag: 1, AdvertisedReceiverWindowCredit: 1 << 16, OutboundStreams: 1, InboundStreams: 1},
		}
	}
	return []gopacket.SerializableLayer{&layers.TCP{SrcPort: layers.TCPPort(src), DstPort: layers.TCPPort(dst), SYN: true, Window: 1 << 15}}
}
