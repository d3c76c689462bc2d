package environment

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/test/framework/network"
)

// End matches the Result of a Dial by how it ended.
func End(outcome network.Outcome) types.GomegaMatcher { return HaveField("Outcome", outcome) }

// Reaches expects that an address is served before long, over TCP, and returns by whom.
func Reaches(from *network.Namespace, to netip.AddrPort) network.Result {
	GinkgoHelper()
	return await(from, network.Probe{To: to, Timeout: network.RetryTimeout}, End(network.Connected))
}

// Ends expects that connections to an address end in one way before long.
func Ends(from *network.Namespace, to netip.AddrPort, outcome network.Outcome) {
	GinkgoHelper()
	await(from, network.Probe{To: to, Timeout: network.DropTimeout}, End(outcome))
}

// EndsElse expects that connections to an address end in any other way before long.
func EndsElse(from *network.Namespace, to netip.AddrPort, outcome network.Outcome) {
	GinkgoHelper()
	await(from, network.Probe{To: to, Timeout: network.DropTimeout}, Not(End(outcome)))
}

// Answers expects that an address is served by an endpoint before long.
func Answers(from *network.Namespace, to netip.AddrPort, e Endpoint) {
	GinkgoHelper()
	await(from, network.Probe{To: to, Timeout: network.RetryTimeout}, HaveField("Endpoint", netip.AddrPortFrom(e.Addr(model.FamilyOf(to.Addr())), 8080)))
}

func await(from *network.Namespace, probe network.Probe, want types.GomegaMatcher) (result network.Result) {
	GinkgoHelper()
	Eventually(func() network.Result {
		result = from.Dial(probe)
		return result
	}).WithTimeout(Soon).WithPolling(50*time.Millisecond).Should(want, "from %s to %s", from.Host(), probe.To)
	return result
}

// Served expects that Services are served at their ClusterIPs of both families, to a pod.
func (s *Environment) Served(services ...*corev1.Service) {
	GinkgoHelper()
	for _, service := range services {
		for _, f := range network.Families {
			Reaches(s.Pod1, VIP(service, f))
		}
	}
}

// attemptTimeout bounds one attempt of traffic: above the time after which the kernel sends a
// packet again (see the sysctls of package network), and the time that a busy machine lets a
// process wait.
const attemptTimeout = 10 * time.Second

// Traffic is all that goes to one Service: new connections from a pod, from the node and from
// outside, and a pod's lasting TCP connections and UDP flows. Each loss is seen: what the kernel
// sent again counts as lost. A slow machine causes none: no time is measured but attemptTimeout.
type Traffic struct {
	streams map[string]*stream
	life    context.Context // of the goroutines
	end     context.CancelFunc
	running sync.WaitGroup
}

// stream is one kind of it, and what of it got lost.
type stream struct {
	mu     sync.Mutex
	tried  int
	losses []string
}

type dialer func(ctx context.Context, network, address string) (net.Conn, error)

// Traffic starts it to Services that are served, with UDP if a Service has a port for that, and
// returns once it runs well. The pod is Pod1: none of its Extra addresses may be an endpoint, as it
// would not know itself at another address.
func (s *Environment) Traffic(services ...*corev1.Service) *Traffic {
	GinkgoHelper()
	t := NewTraffic()
	for _, service := range services {
		for _, f := range network.Families {
			vip, name := VIP(service, f), service.Name+", "+f.String()
			for _, from := range []*network.Namespace{s.Pod1, s.Node, s.Client} {
				t.connect(from.Host()+" to "+name, from.DialContext, vip.String(), pause)
			}
			if port := service.Spec.Ports[0].NodePort; port != 0 {
				t.connect("client to the node port of "+name, s.Client.DialContext, netip.AddrPortFrom(s.Node.Addr(f), uint16(port)).String(), pause)
			}
			t.stay("kept to "+name, s.Pod1.DialContext, "tcp", vip.String(), 8)
			for _, port := range service.Spec.Ports {
				if port.Protocol == corev1.ProtocolUDP {
					t.stay("UDP to "+name, s.Pod1.DialContext, "udp", netip.AddrPortFrom(vip.Addr(), uint16(port.Port)).String(), 8)
				}
			}
		}
	}
	t.Flows()
	return t
}

// NewTraffic has none yet; Connect, ConnectOnceServed and Stay start some. Its Ginkgo node ends it.
func NewTraffic() *Traffic {
	GinkgoHelper()
	t := newTraffic()
	DeferCleanup(t.Stop)
	return t
}

// pause is that between two new connections.
var pause = 20 * time.Millisecond * network.Slowness

// spare is the pause between two new connections where there are many Services.
const spare = 200 * time.Millisecond

// Connect makes new TCP connections to an address.
func (t *Traffic) Connect(from *network.Namespace, to netip.AddrPort) {
	t.connect(fmt.Sprintf("%s to %s", from.Host(), to), from.DialContext, to.String(), spare)
}

// Hammer makes new TCP connections to an address, one after the other without a pause.
func (t *Traffic) Hammer(name string, from *network.Namespace, to netip.AddrPort) {
	t.connect(name, from.DialContext, to.String(), 0)
}

// ConnectOnceServed makes TCP connections to an address. Once one succeeds, none may be lost.
func (t *Traffic) ConnectOnceServed(from *network.Namespace, to netip.AddrPort) {
	served := false
	t.connect(fmt.Sprintf("%s to %s", from.Host(), to), func(ctx context.Context, network, address string) (net.Conn, error) {
		if served {
			return from.DialContext(ctx, network, address)
		}
		ctx, cancel := context.WithTimeout(ctx, spare)
		defer cancel()
		conn, err := from.DialContext(ctx, network, address)
		if err != nil {
			return nil, errNotYet
		}
		served = true
		return conn, nil
	}, to.String(), spare)
}

// Stay keeps TCP connections, or UDP flows, to an address and uses them.
func (t *Traffic) Stay(from *network.Namespace, protocol string, to netip.AddrPort, n int) {
	GinkgoHelper()
	t.stay(fmt.Sprintf("%s over %s, kept to %s", from.Host(), protocol, to), from.DialContext, protocol, to.String(), n)
}

// Count is how often traffic was tried, and what of it got lost.
func (t *Traffic) Count() (tried int, losses []string) {
	for name, s := range t.streams {
		s.mu.Lock()
		tried += s.tried
		for _, loss := range s.losses {
			losses = append(losses, name+": "+loss)
		}
		s.mu.Unlock()
	}
	return tried, losses
}

func newTraffic() *Traffic {
	life, end := context.WithCancel(context.Background())
	return &Traffic{streams: map[string]*stream{}, life: life, end: end}
}

// connect makes TCP connections in turn, asks once and resets: no port waits for late packets.
func (t *Traffic) connect(name string, dial dialer, address string, pause time.Duration) {
	t.streams[name] = &stream{}
	t.repeat(t.streams[name], pause, func() (last bool, err error) {
		l, err := open(t.life, dial, "tcp", address)
		if err == nil {
			_ = l.conn.(*net.TCPConn).SetLinger(0)
			err = l.conn.Close()
		}
		return false, err
	})
}

// stay uses each of n TCP connections or UDP sockets again and again. A TCP connection that fails
// is one loss, and not reopened. A datagram without an answer, or with another server's, is a loss.
func (t *Traffic) stay(name string, dial dialer, protocol, address string, n int) {
	GinkgoHelper()
	t.streams[name] = &stream{}
	for range n {
		l, err := open(t.life, dial, protocol, address)
		Expect(err).NotTo(HaveOccurred(), name)
		t.repeat(t.streams[name], 5*pause, func() (last bool, err error) {
			answer, err := l.ask()
			if err == nil && protocol == "udp" && answer != l.who {
				err = fmt.Errorf("from %s: answered by %s, and before by %s", l.conn.LocalAddr(), answer, l.who)
				l.who = answer
			}
			return err != nil && protocol == "tcp", err
		})
		context.AfterFunc(t.life, func() { _ = l.conn.Close() })
	}
}

// errNotYet is no loss.
var errNotYet = errors.New("not served yet")

// repeat takes a step again and again, until the end of the traffic or the step's last time.
func (t *Traffic) repeat(s *stream, every time.Duration, step func() (last bool, err error)) {
	start := time.Now()
	t.running.Go(func() {
		for last := false; !last; time.Sleep(every) {
			var err error
			last, err = step()
			if t.life.Err() != nil {
				return // what failed may have failed because of that
			}
			if errors.Is(err, errNotYet) {
				continue
			}
			s.mu.Lock()
			s.tried++
			if err != nil {
				s.losses = append(s.losses, fmt.Sprintf("after %.3f s: %v", time.Since(start).Seconds(), err))
			}
			s.mu.Unlock()
		}
	})
}

func (s *stream) soFar() (tried int, losses []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tried, s.losses[:min(20, len(s.losses))]
}

// Flows expects that each kind of traffic goes on, which takes it a moment.
func (t *Traffic) Flows() {
	GinkgoHelper()
	before := map[string]int{}
	for name, stream := range t.streams {
		before[name], _ = stream.soFar()
	}
	for name, stream := range t.streams {
		Eventually(func() int { tried, _ := stream.soFar(); return tried }).WithTimeout(Soon).Should(BeNumerically(">", before[name]+4), name)
	}
}

// Stop ends it. It may be called twice.
func (t *Traffic) Stop() {
	t.end()
	t.running.Wait()
}

// LostNothing ends it and expects that it went on to the end, and that nothing of it got lost.
func (t *Traffic) LostNothing() {
	GinkgoHelper()
	t.Flows()
	t.Stop()
	_, losses := t.Count()
	Expect(losses).To(BeEmpty())
}

// line is one connection to a server of package network, which greets with its name and its
// address, and then echoes. Over UDP it greets again and again.
type line struct {
	conn   net.Conn
	reader *bufio.Reader
	// who greeted first.
	who string
}

// open connects and listens to the greeting.
func open(ctx context.Context, dial dialer, protocol, address string) (*line, error) {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	conn, err := dial(ctx, protocol, address)
	if err != nil {
		return nil, err
	}
	l := &line{conn: conn, reader: bufio.NewReader(conn)}
	if protocol == "udp" {
		l.who, err = l.ask()
	} else {
		l.who, err = l.hear()
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return l, nil
}

func (l *line) ask() (string, error) {
	if err := l.conn.SetDeadline(time.Now().Add(attemptTimeout)); err != nil {
		return "", err
	}
	if _, err := fmt.Fprintln(l.conn, "still there?"); err != nil {
		return "", err
	}
	return l.hear()
}

// hear reads one line and returns its first two words: of a greeting, who answered and where.
func (l *line) hear() (string, error) {
	if err := l.conn.SetDeadline(time.Now().Add(attemptTimeout)); err != nil {
		return "", err
	}
	text, err := l.reader.ReadString('\n')
	if err != nil {
		return "", err // it names both addresses
	}
	if n := l.sentAgain(); n > 0 {
		return "", fmt.Errorf("from %s to %s: %d packets were sent again", l.conn.LocalAddr(), l.conn.RemoteAddr(), n)
	}
	words := strings.Fields(text)
	return strings.Join(words[:min(2, len(words))], " "), nil
}

// sentAgain is how many packets of a TCP connection, with the first, did not arrive at once.
// Emulated timers beat packets: what the peer reports, maybe later, as a duplicate was not lost.
func (l *line) sentAgain() int {
	again, twice := l.resent()
	if network.Slowness == 1 || again == 0 {
		return again
	}
	for i := 0; again > twice && i < 20; i++ {
		time.Sleep(50 * time.Millisecond)
		again, twice = l.resent()
	}
	return max(again-twice, 0)
}

// resent is how many packets of a TCP connection were sent again, and how many arrived twice.
func (l *line) resent() (again, twice int) {
	tcp, ok := l.conn.(*net.TCPConn)
	if !ok {
		return 0, 0
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return 0, 0
	}
	_ = raw.Control(func(fd uintptr) {
		if info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO); err == nil {
			again, twice = int(info.Total_retrans), int(info.Dsack_dups)
		}
	})
	return again, twice
}
