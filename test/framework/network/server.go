package network

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/gopacket/gopacket/layers"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// Server answers on one port and protocol, at all addresses of a namespace of both families. Its
// answers begin with a line: the host's name, the address at which it was reached, and from which.
type Server struct {
	host    string
	seen    atomic.Int64
	closers []func() error
}

// Serve starts a server. Over TCP it greets, then sends back what it receives, until the client
// closes. Over UDP it answers each datagram, and echoes one that begins with ?? after that line;
// over SCTP each INIT, for a port without a server by ABORT. Close or the Topology ends it.
func (n *Namespace) Serve(protocol model.Protocol, port uint16) (*Server, error) {
	s := &Server{host: n.Host()}
	var err error
	switch protocol {
	case model.TCP:
		err = s.serveTCP(n, port)
	case model.UDP:
		err = s.serveUDP(n, port)
	case model.SCTP:
		err = s.serveSCTP(n, port)
	default:
		err = fmt.Errorf("no server for protocol %s", protocol)
	}
	if err != nil {
		return nil, fmt.Errorf("serving %s on port %d of %s: %w", protocol, port, n.Host(), err)
	}
	n.closeLater(s.Close)
	return s, nil
}

// Seen returns how many connections, datagrams or INITs have arrived.
func (s *Server) Seen() int { return int(s.seen.Load()) }

// Close ends the server. Connections that are open stay so.
func (s *Server) Close() error {
	for _, f := range s.closers {
		_ = f() // it may be closed already
	}
	return nil
}

func (s *Server) serveTCP(n *Namespace, port uint16) error {
	listener, err := n.listen("tcp", fmt.Sprintf(":%d", port))
	if err != nil {
		return err
	}
	s.closers = append(s.closers, listener.Close)
	go Accept(listener, s.talk)
	return nil
}

func (s *Server) talk(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	s.seen.Add(1)
	if _, err := io.WriteString(conn, s.greeting(addrPort(conn.LocalAddr()), addrPort(conn.RemoteAddr()))); err != nil {
		return
	}
	_, _ = io.Copy(conn, conn) // the client has gone
}

// greeting is the first line of each answer; readGreeting reads it.
func (s *Server) greeting(local, peer netip.AddrPort) string {
	return fmt.Sprintf("%s %s %s\n", s.host, local, peer)
}

func readGreeting(line string) (server string, local, peer netip.AddrPort, err error) {
	fields := strings.Fields(line)
	if len(fields) != 3 {
		return "", local, peer, fmt.Errorf("%q is no greeting", line)
	}
	if local, err = netip.ParseAddrPort(fields[1]); err != nil {
		return "", local, peer, err
	}
	peer, err = netip.ParseAddrPort(fields[2])
	return fields[0], local, peer, err
}

// addrPort reads the address of a TCP or UDP socket.
func addrPort(a net.Addr) netip.AddrPort {
	var ap netip.AddrPort
	switch a := a.(type) {
	case *net.TCPAddr:
		ap = a.AddrPort()
	case *net.UDPAddr:
		ap = a.AddrPort()
	}
	return netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())
}

func (s *Server) serveUDP(n *Namespace, port uint16) error {
	for _, f := range Families {
		conn, err := listen(n, f, func() (*net.UDPConn, error) { return net.ListenUDP(netName("udp", f), &net.UDPAddr{Port: int(port)}) })
		if err != nil {
			return err
		}
		s.closers = append(s.closers, conn.Close)
		go s.answerDatagrams(conn, f, port)
	}
	return nil
}

// listen opens a socket in a namespace that tells where its packets were sent to.
func listen[T syscall.Conn](n *Namespace, f model.Family, open func() (T, error)) (conn T, err error) {
	err = n.Do(func() error {
		conn, err = open()
		return err
	})
	if err != nil {
		return conn, err
	}
	return conn, receivePacketInfo(conn, f)
}

func (s *Server) answerDatagrams(conn *net.UDPConn, f model.Family, port uint16) {
	var data [largest]byte
	var control [2048]byte
	for {
		length, c, _, peer, err := conn.ReadMsgUDPAddrPort(data[:], control[:])
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return
			}
			continue // an ICMP error of an earlier answer
		}
		s.seen.Add(1)
		local, reply := packetInfo(control[:c], f)
		text := s.greeting(netip.AddrPortFrom(local, port), netip.AddrPortFrom(peer.Addr().Unmap(), peer.Port()))
		if bytes.HasPrefix(data[:length], []byte("??")) {
			text += string(data[:length])
		}
		_, _, _ = conn.WriteMsgUDPAddrPort([]byte(text), reply, peer) // as UDP is: the client asks again
	}
}

// netName returns "udp4", "ip6" and so on.
func netName(base string, f model.Family) string {
	if f == model.IPv6 {
		return base + "6"
	}
	return base + "4"
}

// serveSCTP makes the server one of those that share a raw socket for each family.
func (s *Server) serveSCTP(n *Namespace, port uint16) (err error) {
	n.sctp.Store(port, s)
	s.closers = append(s.closers, func() error { n.sctp.CompareAndDelete(port, s); return nil })
	n.sctpOnce.Do(func() {
		for _, f := range Families {
			var conn *net.IPConn
			if conn, err = listen(n, f, func() (*net.IPConn, error) { return net.ListenIP(netName("ip", f)+":132", nil) }); err != nil {
				return
			}
			n.closeLater(conn.Close)
			go answerInits(conn, f, n)
		}
	})
	return err
}

func answerInits(conn *net.IPConn, f model.Family, n *Namespace) {
	var data, control [2048]byte
	for {
		d, c, _, peer, err := conn.ReadMsgIP(data[:], control[:])
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return
			}
			continue
		}
		packet, ok := parseSCTP(stripHeader(data[:d], f))
		if !ok || packet.chunk != layers.SCTPChunkTypeInit {
			continue
		}
		local, reply := packetInfo(control[:c], f)
		from, _ := netip.AddrFromSlice(peer.IP)
		server, _ := n.sctp.Load(packet.to)
		answer := sctpAnswer(server, packet, local, from.Unmap())
		_, _, _ = conn.WriteMsgIP(answer.bytes(), reply, peer)
	}
}

// sctpAnswer is what a server says to an INIT; no server says ABORT.
func sctpAnswer(server any, p sctpPacket, local, peer netip.Addr) sctpPacket {
	answer := sctpPacket{from: p.to, to: p.from, tag: p.initiate, chunk: layers.SCTPChunkTypeAbort}
	if s, ok := server.(*Server); ok {
		s.seen.Add(1)
		answer.chunk, answer.initiate = layers.SCTPChunkTypeInitAck, p.initiate+1
		answer.cookie = s.greeting(netip.AddrPortFrom(local, p.to), netip.AddrPortFrom(peer, p.from))
	}
	return answer
}
