package network

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"strconv"
	"syscall"
	"time"

	"github.com/gopacket/gopacket/layers"
	"golang.org/x/sys/unix"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// Outcome says in one word how a Dial ended.
type Outcome string

const (
	// Connected means that a [Server] answered.
	Connected Outcome = "connected"
	// Refused means an immediate no: ICMP port unreachable, TCP RST or SCTP ABORT.
	Refused Outcome = "refused"
	// Dropped means that there was no answer in time.
	Dropped Outcome = "dropped"
	// Failed means anything else, for example that the kernel found no route: see the error.
	Failed Outcome = "failed"
)

// Slowness multiplies deadlines, by the environment variable CLUSTERIP_SLOWNESS: for an emulated
// machine, in which all takes some twenty times as long. It is 1 without.
var Slowness = func() time.Duration {
	n, _ := strconv.Atoi(os.Getenv("CLUSTERIP_SLOWNESS"))
	return time.Duration(max(n, 1))
}()

// DefaultTimeout bounds a Dial that should succeed, and may be made once: the processors of a
// shared machine stall for seconds. Where Dials are repeated until one succeeds, RetryTimeout is
// enough.
var DefaultTimeout = 6 * time.Second * Slowness

var (
	// DropTimeout is for a Dial that should get no answer: far above what an answer takes here, also
	// on a busy or an emulated machine. But see TimeoutFor.
	DropTimeout = min(400*time.Millisecond*Slowness, 2*time.Second)
	// RetryTimeout is for one of many Dials until an address is served: TCP has tried twice.
	RetryTimeout = 2 * time.Second * Slowness
	// secondSYN is when TCP has tried twice.
	secondSYN = time.Second + DropTimeout
)

// TimeoutFor returns how long to wait when Refused or Dropped is expected. Linux ignores an ICMP
// refusal that arrives while connect still holds the socket, over IPv6 always here, and hears only
// that of its second SYN, a second later: before that, a missing answer proves nothing.
func TimeoutFor(p Probe, expected Outcome) time.Duration {
	switch {
	case expected == Connected:
		return DefaultTimeout
	case p.To.Addr().Is6() && cmp.Or(p.Protocol, model.TCP) == model.TCP:
		return secondSYN
	default:
		return DropTimeout
	}
}

// Probe is a question to the network. The zero values of all but To are useful.
type Probe struct {
	// Protocol defaults to TCP.
	Protocol model.Protocol
	To       netip.AddrPort
	// Source is where it comes from. The kernel chooses if the address is invalid, or the port 0. UDP
	// Dials one after the other from the same port belong to one flow.
	Source netip.AddrPort
	// Timeout defaults to DefaultTimeout.
	Timeout time.Duration
	// Size is how many bytes are sent and come back besides: over UDP, in fragments from 1,473 on.
	Size int
	// TTL is a packet's hops; 0 leaves it to the kernel. With one, a router's error ends the Dial.
	TTL int
}

// largest is the size of the largest datagram.
const largest = 64 << 10

// Result is what a Probe found out.
type Result struct {
	Outcome Outcome
	// Server answered, at the address Endpoint, and saw Source as its peer.
	Server           string
	Endpoint, Source netip.AddrPort
	// Client is the client's own address; it differs from Source after masquerading.
	Client netip.AddrPort
	// Err is nil if and only if it Connected.
	Err error
}

// Masqueraded reports whether the server saw the node instead of the client.
func (r Result) Masqueraded() bool {
	return r.Source.Addr() != r.Client.Addr() && IsNodeAddr(r.Source.Addr())
}

// String tells the result for a human.
func (r Result) String() string {
	if r.Outcome != Connected {
		return fmt.Sprintf("%s (%v)", r.Outcome, r.Err)
	}
	return fmt.Sprintf("connected from %s to %s at %s, which saw %s", r.Client, r.Server, r.Endpoint, r.Source)
}

// Dial asks once, from inside the namespace. It returns after Timeout at the latest.
func (n *Namespace) Dial(p Probe) Result {
	p.Protocol, p.Timeout = cmp.Or(p.Protocol, model.TCP), cmp.Or(p.Timeout, DefaultTimeout)
	if p.Protocol == model.SCTP {
		return n.dialSCTP(p)
	}
	conn, err := n.open(p)
	if err != nil {
		return failure(err)
	}
	defer func() { _ = conn.Close() }()
	result := ask(conn, p)
	n.threads.note(p, result)
	return result
}

// open makes the socket and, over TCP, the connection.
func (n *Namespace) open(p Probe) (conn net.Conn, err error) {
	dialer := net.Dialer{Deadline: time.Now().Add(p.Timeout), Control: p.prepare}
	network := "tcp"
	dialer.LocalAddr = net.TCPAddrFromAddrPort(p.Source)
	if p.Protocol == model.UDP {
		network, dialer.LocalAddr = "udp", net.UDPAddrFromAddrPort(p.Source)
	}
	if !p.Source.Addr().IsValid() && p.Source.Port() == 0 {
		dialer.LocalAddr = nil
	}
	err = n.Do(func() error {
		conn, err = dialer.Dial(network, p.To.String())
		return err
	})
	return conn, err
}

// prepare lets a socket have any source address, and one that was in use a moment ago.
func (p Probe) prepare(_, _ string, raw syscall.RawConn) error {
	return raw.Control(func(fd uintptr) {
		// What a family does not know fails, as it may.
		_ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_FREEBIND, 1)
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_FREEBIND, 1)
		if p.TTL > 0 {
			_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_TTL, p.TTL)
			_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_RECVERR, 1)
			_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_UNICAST_HOPS, p.TTL)
			_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_RECVERR, 1)
		}
	})
}

// ask waits for the greeting. Over UDP it must send something first; a firewall of its own host
// that refuses that (EPERM) is no answer yet, for an ICMP message may follow.
func ask(conn net.Conn, p Probe) Result {
	_ = conn.SetDeadline(time.Now().Add(p.Timeout))
	if p.Protocol == model.UDP {
		if _, err := conn.Write(bytes.Repeat([]byte("?"), max(p.Size, 1))); err != nil && !errors.Is(err, unix.EPERM) {
			return failure(err)
		}
	}
	answer := bufio.NewReaderSize(conn, largest)
	line, err := answer.ReadString('\n')
	if err != nil {
		return failure(err)
	}
	if p.Protocol != model.UDP && p.Size > 0 {
		go func() { _, _ = conn.Write(make([]byte, p.Size)) }() // an error shows below
	}
	if _, err := io.CopyN(io.Discard, answer, int64(p.Size)); err != nil {
		return failure(err)
	}
	return success(line, addrPort(conn.LocalAddr()))
}

func success(line string, client netip.AddrPort) Result {
	r := Result{Outcome: Connected, Client: client}
	if r.Server, r.Endpoint, r.Source, r.Err = readGreeting(line); r.Err != nil {
		r.Outcome = Failed
	}
	return r
}

func failure(err error) Result {
	r := Result{Outcome: Failed, Err: err}
	var late net.Error
	switch {
	case errors.As(err, &late) && late.Timeout():
		r.Outcome = Dropped
	case errors.Is(err, unix.ECONNREFUSED), errors.Is(err, errAbort):
		r.Outcome = Refused
	}
	return r
}

var errAbort = errors.New("SCTP ABORT")

// dialSCTP sends an INIT and waits for its answer.
func (n *Namespace) dialSCTP(p Probe) Result {
	f := model.FamilyOf(p.To.Addr())
	conn, err := n.openRaw(p, f)
	if err != nil {
		return failure(err)
	}
	defer func() { _ = conn.Close() }()
	port := cmp.Or(p.Source.Port(), uint16(20000+rand.N(40000)))
	init := sctpPacket{from: port, to: p.To.Port(), chunk: layers.SCTPChunkTypeInit, initiate: rand.Uint32() | 1}
	_ = conn.SetDeadline(time.Now().Add(p.Timeout))
	if _, err := conn.Write(init.bytes()); err != nil && !errors.Is(err, unix.EPERM) {
		return failure(err)
	}
	client, _ := netip.AddrFromSlice(conn.LocalAddr().(*net.IPAddr).IP)
	return awaitAnswer(conn, f, init, netip.AddrPortFrom(client.Unmap(), init.from))
}

func (n *Namespace) openRaw(p Probe, f model.Family) (conn net.Conn, err error) {
	dialer := net.Dialer{Control: p.prepare}
	if p.Source.Addr().IsValid() {
		dialer.LocalAddr = &net.IPAddr{IP: p.Source.Addr().AsSlice()}
	}
	err = n.Do(func() error {
		conn, err = dialer.Dial(netName("ip", f)+":132", p.To.Addr().String())
		return err
	})
	return conn, err
}

// awaitAnswer skips what belongs to other conversations: a raw socket hears them all.
func awaitAnswer(conn net.Conn, f model.Family, init sctpPacket, client netip.AddrPort) Result {
	var buffer [2048]byte
	for {
		length, err := conn.Read(buffer[:])
		if err != nil {
			return failure(err)
		}
		answer, ok := parseSCTP(stripHeader(buffer[:length], f))
		if !ok || answer.from != init.to || answer.to != init.from || answer.tag != init.initiate {
			continue
		}
		if answer.chunk == layers.SCTPChunkTypeAbort {
			return failure(errAbort)
		}
		return success(answer.cookie, client)
	}
}
