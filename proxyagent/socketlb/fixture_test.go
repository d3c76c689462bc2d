//go:build linux

package socketlb

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/testr"
	"golang.org/x/sys/unix"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/test/framework/network"
)

func TestMain(m *testing.M) {
	if how := os.Getenv(confined); how != "" {
		if how == old {
			runtime.LockOSThread()
			_, _, _ = unix.Syscall(unix.SYS_PERSONALITY, uname26, 0, 0)
		}
		_, err := Open(Options{Scope: Pods, CgroupRoot: "/sys/fs/cgroup"})
		if err == nil {
			fmt.Println("it has what it takes")
			os.Exit(0)
		}
		s := Unavailable(Pods, err)
		fmt.Println(s.Reason, s.Detail)
		os.Exit(0)
	}
	network.Isolate(m)
}

// confined has this program only say what Open does, in a process with fewer rights, or old: to
// which the kernel says that it is Linux 2.6.
const confined, old = "SOCKETLB_CONFINED", "old"

// uname26 is UNAME26 of <linux/personality.h>.
const uname26 = 0x0020000

// vip is the n-th virtual IP of a family, endpoint the n-th endpoint, an address of this host.
func vip(f model.Family, n int) netip.Addr { return nth(f, "10.96.0.0", "fd00:96::", n) }

func endpoint(f model.Family, n int, port uint16) netip.AddrPort {
	return netip.AddrPortFrom(nth(f, "10.244.0.0", "fd00:244::", n), port)
}

func nth(f model.Family, v4, v6 string, n int) netip.Addr {
	a := netip.MustParseAddr(v4)
	if f == model.IPv6 {
		a = netip.MustParseAddr(v6)
	}
	for range n {
		a = a.Next()
	}
	return a
}

// rules are a backend that notes what it is asked for.
type rules struct {
	sync     func(deltas []model.Delta) error
	degraded []model.Degradation
}

func (r *rules) Sync(_ context.Context, deltas ...model.Delta) (bool, error) {
	if r.sync != nil {
		return false, r.sync(deltas)
	}
	return false, nil
}
func (r *rules) Check(context.Context, time.Time) ([]string, error) { return nil, nil }
func (r *rules) Served() []model.ServicePort                        { return nil }
func (r *rules) Counts() (total, written map[string]int) {
	return map[string]int{"nat": 1}, map[string]int{}
}
func (r *rules) Degraded() []model.Degradation    { return r.degraded }
func (r *rules) Describe(model.PortName) []string { return []string{"rules"} }

// host is a network namespace with endpoints, and a cgroup in which this process is.
type host struct {
	t        *testing.T
	cgroup   network.Cgroup
	next     *rules
	lb       *Translator
	backends map[model.Family]*Backend
}

var prepared bool

// newHost makes a host whose programs are attached.
func newHost(t *testing.T, scope Scope) *host {
	network.NeedIsolation(t)
	h := &host{t: t, next: &rules{}, backends: map[model.Family]*Backend{}}
	if !prepared {
		h.ip("link", "set", "lo", "up")
		for i := 1; i <= 12; i++ {
			h.ip("addr", "add", endpoint(model.IPv4, i, 0).Addr().String()+"/32", "dev", "lo")
			h.ip("addr", "add", endpoint(model.IPv6, i, 0).Addr().String()+"/128", "dev", "lo", "nodad")
		}
		prepared = true
	}
	var err error
	h.cgroup, err = network.NewCgroup()
	h.must(err)
	t.Cleanup(func() { h.must(h.cgroup.Close()) })
	pods, err := h.cgroup.Child("kubepods.slice/pod1")
	h.must(err)
	h.must(pods.Enter(os.Getpid()))
	h.open(scope)
	return h
}

// open starts a translator, as an agent does.
func (h *host) open(scope Scope) {
	h.t.Helper()
	var err error
	h.lb, err = Open(Options{Scope: scope, CgroupRoot: h.cgroup.Path()})
	h.must(err)
	h.t.Cleanup(h.lb.close)
	if s, _ := h.lb.look(); !s.Active() {
		h.t.Fatalf("not attached: %+v", s)
	}
	for _, f := range network.Families {
		h.backends[f] = h.lb.Backend(f, h.next)
		h.sync(model.Delta{Globals: &model.Globals{Family: f}})
	}
}

func (h *host) must(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

func (h *host) ip(args ...string) {
	h.t.Helper()
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		h.t.Fatalf("ip %v: %v: %s", args, err, out)
	}
}

// sync brings a Delta to the backend of its family.
func (h *host) sync(d model.Delta) {
	h.t.Helper()
	f := model.IPv4
	if d.Globals != nil {
		f = d.Globals.Family
	}
	for _, p := range d.Ports {
		if p != nil {
			f = model.FamilyOf(p.ClusterIPs[0])
		}
	}
	_, err := h.backends[f].Sync(logr.NewContext(h.t.Context(), testr.New(h.t)), d)
	h.must(err)
}

// port is one of a Service of a name, at a virtual IP.
func port(name string, at netip.Addr, endpoints ...netip.AddrPort) *model.ServicePort {
	return &model.ServicePort{
		Name:       model.PortName{Service: model.ServiceName{Namespace: "default", Name: name}, Protocol: model.TCP},
		ClusterIPs: []netip.Addr{at}, Port: 80, Cluster: endpoints, HasEndpoints: len(endpoints) > 0,
	}
}

// gone is the Delta that takes a Service away.
func gone(name string, f model.Family) model.Delta {
	return model.Delta{Globals: &model.Globals{Family: f}, Ports: map[model.PortName]*model.ServicePort{port(name, vip(f, 1)).Name: nil}}
}

// set is the Delta that gives ports.
func set(all ...*model.ServicePort) model.Delta {
	d := model.Delta{Ports: map[model.PortName]*model.ServicePort{}}
	for _, p := range all {
		d.Ports[p.Name] = p
	}
	return d
}

// server answers at an endpoint of this host, and counts.
type server struct {
	net.Listener
	at   netip.AddrPort
	seen atomic.Int64
}

// serve starts a server at the n-th endpoint, which says where it is and closes each connection.
func (h *host) serve(f model.Family, n int) *server {
	h.t.Helper()
	l, err := net.Listen("tcp", endpoint(f, n, 0).String())
	h.must(err)
	s := &server{Listener: l, at: netip.MustParseAddrPort(l.Addr().String())}
	h.t.Cleanup(func() { _ = l.Close() })
	go network.Accept(l, func(c net.Conn) {
		s.seen.Add(1)
		_, _ = fmt.Fprintln(c, s.at)
		var end [1]byte
		_, _ = c.Read(end[:])
		_ = c.Close()
	})
	return s
}

// sockaddr is an address for a socket, which may be of IPv6 while the address is of IPv4.
func sockaddr(a netip.AddrPort, six bool) unix.Sockaddr {
	if a.Addr().Is4() && !six {
		return &unix.SockaddrInet4{Port: int(a.Port()), Addr: a.Addr().As4()}
	}
	return &unix.SockaddrInet6{Port: int(a.Port()), Addr: a.Addr().As16()}
}

func addrPort(s unix.Sockaddr) netip.AddrPort {
	switch s := s.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(s.Addr), uint16(s.Port))
	case *unix.SockaddrInet6:
		return netip.AddrPortFrom(netip.AddrFrom16(s.Addr), uint16(s.Port))
	}
	return netip.AddrPort{}
}

// client is a socket.
type client struct {
	*host
	fd  int
	six bool
}

func (h *host) socket(six bool, flags int) *client {
	h.t.Helper()
	domain := unix.AF_INET
	if six {
		domain = unix.AF_INET6
	}
	fd, err := unix.Socket(domain, unix.SOCK_STREAM|flags, 0)
	h.must(err)
	h.must(unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1}))
	c := &client{h, fd, six}
	h.t.Cleanup(func() { _ = unix.Close(c.fd) })
	return c
}

func (c *client) connect(to netip.AddrPort) error { return unix.Connect(c.fd, sockaddr(to, c.six)) }

// peer is what the client is told.
func (c *client) peer() netip.AddrPort {
	c.t.Helper()
	a, err := unix.Getpeername(c.fd)
	c.must(err)
	return addrPort(a)
}

// disconnect has the socket be as if it had never connected.
func (c *client) disconnect() {
	c.t.Helper()
	var unspecified [16]byte
	if _, _, problem := unix.Syscall(unix.SYS_CONNECT, uintptr(c.fd), uintptr(unsafe.Pointer(&unspecified)), uintptr(len(unspecified))); problem != 0 {
		c.t.Fatal(problem)
	}
}

// connects makes connections, which have to succeed.
func (h *host) connects(to netip.AddrPort, times int) {
	h.t.Helper()
	for range times {
		c := h.socket(to.Addr().Is6(), 0)
		h.must(c.connect(to))
		h.must(unix.Close(c.fd))
		c.fd = -1
	}
}

// leaves wants connections not to be translated: there is no route to virtual IPs.
func (h *host) leaves(to netip.AddrPort) {
	h.t.Helper()
	for _, six := range []bool{false, true} {
		if !six && to.Addr().Is6() {
			continue
		}
		if err := h.socket(six, 0).connect(to); !errors.Is(err, unix.ENETUNREACH) {
			h.t.Fatalf("to %s (IPv6 socket %v): %v, and it should be left to rules", to, six, err)
		}
	}
}

// wants is reaches or leaves.
func (h *host) wants(who string, to netip.AddrPort, s *server, translated bool) {
	h.t.Helper()
	h.t.Log("as " + who)
	if translated {
		h.reaches(to, s)
	} else {
		h.leaves(to)
	}
}

// inside connects in a network namespace without any route: what is translated is noted, and shows.
func (h *host) inside(to netip.AddrPort, translated bool) error {
	fd, err := unix.Socket(map[bool]int{false: unix.AF_INET, true: unix.AF_INET6}[to.Addr().Is6()], unix.SOCK_STREAM, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	taken := func() (n uint64) {
		for _, all := range h.backends[model.FamilyOf(to.Addr())].Taken() {
			n += all
		}
		return n
	}
	before := taken()
	_ = unix.Connect(fd, sockaddr(to, to.Addr().Is6())) // there is no route
	if now := taken(); (now > before) != translated {
		return fmt.Errorf("of another network namespace %d connections were translated, want %v", now-before, translated)
	}
	return nil
}

// load makes connections until it is stopped.
type load struct {
	*host
	to     netip.AddrPort
	n      atomic.Int64
	failed atomic.Pointer[error]
	rounds [4]atomic.Int64 // connections of each loop that have ended
	ended  chan struct{}
	loops  sync.WaitGroup
}

func (h *host) load(to netip.AddrPort) *load {
	l := &load{host: h, to: to, ended: make(chan struct{})}
	for i := range l.rounds {
		l.loops.Go(func() {
			for {
				select {
				case <-l.ended:
					return
				default:
				}
				if err := l.one(); err != nil {
					l.failed.CompareAndSwap(nil, &err)
				}
				l.n.Add(1)
				l.rounds[i].Add(1)
			}
		})
	}
	return l
}

func (l *load) one() error {
	fd, err := unix.Socket(map[bool]int{false: unix.AF_INET, true: unix.AF_INET6}[l.to.Addr().Is6()], unix.SOCK_STREAM, 0)
	if err != nil {
		return err
	}
	_ = unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
	return errors.Join(unix.Connect(fd, sockaddr(l.to, l.to.Addr().Is6())), unix.Close(fd))
}

// ask makes a connection and returns the endpoint that answers.
func ask(to netip.AddrPort) (at netip.AddrPort, err error) {
	c, err := net.Dial("tcp", to.String())
	if err != nil {
		return at, err
	}
	_ = c.(*net.TCPConn).SetLinger(0)
	line, err := bufio.NewReader(c).ReadString('\n')
	if err == nil {
		at, err = netip.ParseAddrPort(strings.TrimSpace(line))
	}
	return at, errors.Join(err, c.Close())
}

// pass waits until no connect() is under way that had begun before.
func (l *load) pass() {
	l.t.Helper()
	for i := range l.rounds {
		at := l.rounds[i].Load()
		l.eventually(func() error {
			if l.rounds[i].Load() < at+1 {
				return errors.New("a connect() does not return")
			}
			return nil
		})
	}
}

// stop ends the load, and wants all connections to have succeeded.
func (l *load) stop() {
	l.t.Helper()
	close(l.ended)
	l.loops.Wait()
	if err := l.failed.Load(); err != nil || l.n.Load() == 0 {
		l.t.Errorf("of %d connections failed: %v", l.n.Load(), *err)
	}
}

// reaches wants a new connection of each kind of socket to arrive, and to be told the front.
func (h *host) reaches(to netip.AddrPort, s *server) {
	h.t.Helper()
	for _, six := range []bool{false, true} {
		if !six && to.Addr().Is6() {
			continue
		}
		before := s.seen.Load()
		c := h.socket(six, 0)
		if err := c.connect(to); err != nil {
			h.t.Fatalf("to %s (IPv6 socket %v): %v", to, six, err)
		}
		want := to
		if six {
			want = netip.AddrPortFrom(netip.AddrFrom16(to.Addr().As16()), to.Port())
		}
		if got := c.peer(); got != want {
			h.t.Errorf("getpeername is %s, want %s", got, want)
		}
		h.eventually(func() error {
			if s.seen.Load() == before {
				return fmt.Errorf("the server at %s has not seen a connection to %s", s.at, to)
			}
			return nil
		})
	}
}

func (h *host) eventually(question func() error) {
	h.t.Helper()
	var err error
	for range 500 {
		if err = question(); err == nil {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	h.t.Fatal(err)
}
