//go:build linux

package socketlb

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/test/framework/network"
)

// each runs a test for both families on a host whose pods are served.
func each(t *testing.T, run func(h *host, f model.Family)) {
	for _, f := range network.Families {
		t.Run(f.String(), func(t *testing.T) { run(newHost(t, Pods), f) })
	}
}

// front is a virtual IP and the port of port.
func front(f model.Family, n int) netip.AddrPort { return netip.AddrPortFrom(vip(f, n), 80) }

// TestAConnectionIsLedToAnEndpoint goes through sockets of both families: an IPv4 address may be
// mapped into IPv6. The client is told the virtual IP.
func TestAConnectionIsLedToAnEndpoint(t *testing.T) {
	each(t, func(h *host, f model.Family) {
		s := h.serve(f, 1)
		h.sync(set(port("web", vip(f, 1), s.at)))
		h.reaches(front(f, 1), s)
		h.leaves(netip.AddrPortFrom(vip(f, 1), 81))
		h.leaves(front(f, 2))
		h.sync(gone("web", f))
		h.leaves(front(f, 1))
	})
}

// TestEachEndpointIsReached counts: all get connections by chance, in turn each gets as many as it
// weighs.
func TestEachEndpointIsReached(t *testing.T) {
	each(t, func(h *host, f model.Family) {
		one, two := h.serve(f, 1), h.serve(f, 2)
		p := port("web", vip(f, 1), one.at, two.at)
		h.sync(set(p))
		h.connects(front(f, 1), 60)
		h.eventually(func() error {
			if a, b := one.seen.Load(), two.seen.Load(); a+b != 60 || a == 0 || b == 0 {
				return fmt.Errorf("of 60 connections %d and %d arrived", a, b)
			}
			return nil
		})
		if !h.lb.turns {
			return // the kernel is older than 5.12
		}
		p = port("web", vip(f, 1), one.at, two.at)
		p.Scheduler, p.Weights = model.WeightedRoundRobin, model.Weights{one.at: 3}
		h.sync(set(p))
		before, beside := one.seen.Load(), two.seen.Load()
		h.connects(front(f, 1), 40)
		h.eventually(func() error {
			if a, b := one.seen.Load()-before, two.seen.Load()-beside; a != 30 || b != 10 {
				return fmt.Errorf("of 40 connections %d and %d arrived, want 30 and 10", a, b)
			}
			return nil
		})
		if taken := h.backends[f].Taken()[p.Name.Service]; taken != 100 {
			t.Errorf("it counts %d connections of 100", taken)
		}
	})
}

// TestASocketThatConnectsAgain is told what it has asked for last: another virtual IP, the endpoint
// itself, or an endpoint of which it has an old note.
func TestASocketThatConnectsAgain(t *testing.T) {
	each(t, func(h *host, f model.Family) {
		one, two := h.serve(f, 1), h.serve(f, 2)
		h.sync(set(port("one", vip(f, 1), one.at), port("two", vip(f, 2), two.at)))
		c := h.socket(f == model.IPv6, 0)
		for i, to := range []netip.AddrPort{front(f, 1), front(f, 2), two.at, front(f, 1), one.at, two.at, front(f, 2)} {
			h.must(c.connect(to))
			if got := c.peer(); got != to {
				t.Errorf("connection %d: getpeername is %s, want %s", i, got, to)
			}
			c.disconnect()
		}
	})
}

// TestASocketThatConnectedWhileNoProgramWasThere has an old note, which nothing took away.
func TestASocketThatConnectedWhileNoProgramWasThere(t *testing.T) {
	each(t, func(h *host, f model.Family) {
		one, two := h.serve(f, 1), h.serve(f, 2)
		h.sync(set(port("one", vip(f, 1), one.at)))
		c := h.socket(f == model.IPv6, 0)
		h.must(c.connect(front(f, 1)))
		c.disconnect()
		h.lb.detach()
		h.must(c.connect(two.at))
		h.lb.look()
		if got := c.peer(); got != two.at {
			t.Errorf("getpeername is %s, want %s", got, two.at)
		}
	})
}

// TestAConnectionThatDoesNotBlock is one whose connect() returns before it is there.
func TestAConnectionThatDoesNotBlock(t *testing.T) {
	each(t, func(h *host, f model.Family) {
		s := h.serve(f, 1)
		h.sync(set(port("web", vip(f, 1), s.at)))
		c := h.socket(f == model.IPv6, unix.SOCK_NONBLOCK)
		if err := c.connect(front(f, 1)); err != nil && !errors.Is(err, unix.EINPROGRESS) {
			t.Fatal(err)
		}
		_, err := unix.Poll([]unix.PollFd{{Fd: int32(c.fd), Events: unix.POLLOUT}}, 5000)
		h.must(err)
		if problem, err := unix.GetsockoptInt(c.fd, unix.SOL_SOCKET, unix.SO_ERROR); problem != 0 || err != nil {
			t.Fatal(unix.Errno(problem), err)
		}
		if got := c.peer(); got != front(f, 1) {
			t.Errorf("getpeername is %s", got)
		}
	})
}

// TestAConnectionThatFailed is tried again with the same socket, and gets another endpoint.
func TestAConnectionThatFailed(t *testing.T) {
	each(t, func(h *host, f model.Family) {
		nobody, s := endpoint(f, 3, 9), h.serve(f, 1)
		h.sync(set(port("web", vip(f, 1), nobody)))
		c := h.socket(f == model.IPv6, 0)
		if err := c.connect(front(f, 1)); !errors.Is(err, unix.ECONNREFUSED) {
			t.Fatalf("no server is there, and connect says %v", err)
		}
		h.sync(set(port("web", vip(f, 1), s.at)))
		h.must(c.connect(front(f, 1)))
		if got := c.peer(); got != front(f, 1) {
			t.Errorf("getpeername is %s", got)
		}
	})
}

// TestWhatIsLeftToRules is not changed: UDP, session affinity, addresses from outside.
func TestWhatIsLeftToRules(t *testing.T) {
	each(t, func(h *host, f model.Family) {
		s := h.serve(f, 1)
		web := port("web", vip(f, 1), s.at)
		web.ExternalIPs = []netip.Addr{vip(f, 3)}
		sticky := port("sticky", vip(f, 2), s.at)
		sticky.AffinitySeconds = 60
		dns := port("dns", vip(f, 1), s.at)
		dns.Name.Protocol = model.UDP
		h.sync(set(web, sticky, dns))
		h.leaves(front(f, 2))
		h.leaves(front(f, 3))
		if _, err := net.Dial("udp", front(f, 1).String()); !errors.Is(err, unix.ENETUNREACH) {
			t.Errorf("UDP was led to somewhere: %v", err)
		}
		h.reaches(front(f, 1), s)
	})
}

// TestWithoutRoomForANoteNothingIsTranslated fills the memory that a socket may have for it.
func TestWithoutRoomForANoteNothingIsTranslated(t *testing.T) {
	each(t, func(h *host, f model.Family) {
		t := h.t
		s := h.serve(f, 1)
		h.sync(set(port("web", vip(f, 1), s.at)))
		const path = "/proc/sys/net/core/optmem_max"
		before, err := os.ReadFile(path)
		if errors.Is(err, os.ErrNotExist) {
			t.Skip("the kernel has one limit for all network namespaces, and tells that in the first alone")
		}
		h.must(err)
		h.must(os.WriteFile(path, []byte("1"), 0))
		h.leaves(front(f, 1))
		h.must(os.WriteFile(path, before, 0))
		h.reaches(front(f, 1), s)
	})
}

// TestConnectionsToOthersAreAsBefore are those to addresses of which no map knows.
func TestConnectionsToOthersAreAsBefore(t *testing.T) {
	each(t, func(h *host, f model.Family) {
		s := h.serve(f, 1)
		h.reaches(s.at, s)
	})
}

// TestNoPlaceOfAnotherFrontIsUsed writes one into a block, as if a program had read where it is
// before it became another front's.
func TestNoPlaceOfAnotherFrontIsUsed(t *testing.T) {
	each(t, func(h *host, f model.Family) {
		one, two := h.serve(f, 1), h.serve(f, 2)
		h.sync(set(port("one", vip(f, 1), one.at)))
		h.reaches(front(f, 1), one)
		h.backends[f].memory.Write(0, front(f, 2), two.at)
		h.leaves(front(f, 1))
		if two.seen.Load() > 0 {
			t.Error("the endpoint of another front was reached")
		}
	})
}

// TestMapsGrow has more fronts than there is room for at first, while connections are made.
func TestMapsGrow(t *testing.T) {
	each(t, func(h *host, f model.Family) {
		s := h.serve(f, 1)
		h.sync(set(port("web", vip(f, 1), s.at)))
		h.reaches(front(f, 1), s)
		load := h.load(front(f, 1))
		d := set()
		for i := range 3000 {
			p := port(fmt.Sprint("s", i), vip(f, i+2), s.at, endpoint(f, 2, 80), endpoint(f, 3, 80))
			d.Ports[p.Name] = p
		}
		h.sync(d)
		load.stop()
		if total, _ := h.backends[f].Counts(); total[tableName] != 3001+9001 {
			t.Errorf("it counts %v", total)
		}
		h.reaches(front(f, 1), s)
		h.sync(set(port("s2999", vip(f, 3001), s.at)))
		h.reaches(front(f, 3001), s)
	})
}

// TestMultipathTCP has subflows that are TCP, of a socket that no program sees at connect(). It is
// led to an endpoint, and told that instead of the front.
func TestMultipathTCP(t *testing.T) {
	each(t, func(h *host, f model.Family) {
		s := h.serve(f, 1)
		h.sync(set(port("web", vip(f, 1), s.at)))
		domain := unix.AF_INET
		if f == model.IPv6 {
			domain = unix.AF_INET6
		}
		fd, err := unix.Socket(domain, unix.SOCK_STREAM, unix.IPPROTO_MPTCP)
		if errors.Is(err, unix.EPROTONOSUPPORT) || errors.Is(err, unix.ENOPROTOOPT) {
			return // the kernel has none
		}
		h.must(err)
		c := &client{h, fd, f == model.IPv6}
		t.Cleanup(func() { _ = unix.Close(fd) })
		h.must(c.connect(front(f, 1)))
		if got := c.peer(); got != s.at {
			t.Errorf("getpeername is %s", got)
		}
	})
}

// TestASocketBoundToLoopback is left to rules, which give it an address that can be answered.
func TestASocketBoundToLoopback(t *testing.T) {
	each(t, func(h *host, f model.Family) {
		s := h.serve(f, 1)
		h.sync(set(port("web", vip(f, 1), s.at)))
		for _, six := range []bool{false, true} {
			if !six && f == model.IPv6 {
				continue
			}
			for address, left := range map[netip.Addr]bool{network.Loopback(f): true, s.at.Addr(): false} {
				c := h.socket(six, 0)
				h.must(unix.Bind(c.fd, sockaddr(netip.AddrPortFrom(address, 0), six)))
				before := h.backends[f].Taken()[port("web", vip(f, 1)).Name.Service]
				_ = c.connect(front(f, 1)) // there is no route from loopback
				if taken := h.backends[f].Taken()[port("web", vip(f, 1)).Name.Service]; (taken == before) != left {
					t.Errorf("bound to %s (IPv6 socket %v) %d connections were translated", address, six, taken-before)
				}
			}
		}
	})
}
