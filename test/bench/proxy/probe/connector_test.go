package probe

import (
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/clusterip-operator/clusterip-operator/test/framework/network"
)

// listening returns the address of a server on loopback, and one without a listener.
func listening(t *testing.T, network, address string) (open, shut netip.AddrPort) {
	t.Helper()
	listener, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	open = netip.MustParseAddrPort(listener.Addr().String())
	return open, netip.AddrPortFrom(open.Addr(), held(t, open.Addr()))
}

// held is a port of a socket that does not listen; another program cannot listen there either.
func held(t *testing.T, addr netip.Addr) uint16 {
	t.Helper()
	family, at := syscall.AF_INET6, syscall.Sockaddr(&syscall.SockaddrInet6{Addr: addr.As16()})
	if addr.Is4() {
		family, at = syscall.AF_INET, &syscall.SockaddrInet4{Addr: addr.As4()}
	}
	socket, err := syscall.Socket(family, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Close(socket) })
	if err := syscall.Bind(socket, at); err != nil {
		t.Fatal(err)
	}
	bound, err := syscall.Getsockname(socket)
	if err != nil {
		t.Fatal(err)
	}
	return portOf(bound)
}

func portOf(a syscall.Sockaddr) uint16 {
	if four, is := a.(*syscall.SockaddrInet4); is {
		return uint16(four.Port)
	}
	return uint16(a.(*syscall.SockaddrInet6).Port)
}

func TestConnectTellsOpenFromShutPorts(t *testing.T) {
	for network, address := range map[string]string{"tcp4": "127.0.0.1:0", "tcp6": "[::1]:0"} {
		t.Run(network, func(t *testing.T) {
			open, shut := listening(t, network, address)
			for to, want := range map[netip.AddrPort]Outcome{open: Connected, shut: Refused} {
				took, got, err := connect(to, time.Second)
				if err != nil || got != want || took <= 0 {
					t.Errorf("%s: %s after %s, %v; want %s", to, got, took, err, want)
				}
			}
		})
	}
}

func TestMeasureTakesTargetsInTurn(t *testing.T) {
	open, shut := listening(t, "tcp4", "127.0.0.1:0")
	var c connector
	got := c.serve(request{Targets: []netip.AddrPort{open, open, shut}, Count: 9})
	if len(got.Took) != 6 || got.Failed != 3 || !strings.HasPrefix(got.Failure, shut.String()+": refused") || got.Error != "" {
		t.Errorf("%d connections, %d failed, %q, %q; want 6 and 3", len(got.Took), got.Failed, got.Failure, got.Error)
	}
	if again := c.serve(request{Count: 3}); len(again.Took) != 2 {
		t.Errorf("%d connections; want 2 of 3: targets stay", len(again.Took))
	}
	if none := (&connector{}).serve(request{Count: 1}); none.Error == "" {
		t.Error("a client without targets has no error")
	}
}

func TestMeasureEndsInTime(t *testing.T) {
	open, _ := listening(t, "tcp4", "127.0.0.1:0")
	var c connector
	start := time.Now()
	const long = 500 * time.Millisecond
	got := c.serve(request{Targets: []netip.AddrPort{open}, For: long, Pause: time.Millisecond})
	if took := time.Since(start); took < long || took > 5*time.Second {
		t.Errorf("it took %s", took)
	}
	if n := len(got.Took); n < 2 || n > 500 {
		t.Errorf("%d connections in %s with a pause of 1 ms after each", n, long)
	}
}

func TestUntilWaitsForAStreak(t *testing.T) {
	open, shut := listening(t, "tcp4", "127.0.0.1:0")
	before, err := Now()
	if err != nil {
		t.Fatal(err)
	}
	var c connector
	got := c.serve(request{Targets: []netip.AddrPort{open}, Until: Connected, Streak: 10, Timeout: 5 * time.Second})
	after, err := Now()
	if err != nil {
		t.Fatal(err)
	}
	if wait := after.Since(got.At); got.At < before || wait < 9*pollPause {
		t.Errorf("the first of 10 connections was %s before the end", wait)
	}
	if once := c.serve(request{Targets: []netip.AddrPort{shut}, Until: Refused, Timeout: 5 * time.Second}); once.At <= got.At || once.Error != "" {
		t.Errorf("a single refusal: %+v", once)
	}
	if never := c.serve(request{Targets: []netip.AddrPort{shut}, Until: Connected, Timeout: 20 * time.Millisecond}); never.At != 0 || never.Error != "" {
		t.Errorf("a shut port: %+v", never)
	}
}

// TestMain has the test's program be a server, too.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == Name {
		os.Exit(Main(os.Args[2:]))
	}
	os.Exit(m.Run())
}

func TestExchangeCountsWhatIsAnswered(t *testing.T) {
	for domain, address := range map[string]string{"tcp4": "127.0.0.1:0", "tcp6": "[::1]:0"} {
		t.Run(domain, func(t *testing.T) {
			at := netip.MustParseAddrPort(address)
			server, err := Answer(&network.Namespace{}, at)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := server.Close(); err != nil {
					t.Error(err)
				}
			})
			open := netip.AddrPortFrom(at.Addr(), server.port)
			var c connector
			t.Cleanup(disturb(t))
			for _, each := range []bool{false, true} {
				if got := c.serve(request{Targets: []netip.AddrPort{open, open}, Exchange: 5000, Each: each}); got.Rate <= 0 || got.Error != "" {
					t.Errorf("each on a connection of its own %v: %+v", each, got)
				}
			}
			_, shut := listening(t, domain, address)
			if got := c.serve(request{Targets: []netip.AddrPort{shut}, Exchange: 1}); got.Rate != 0 || !strings.Contains(got.Error, shut.String()) {
				t.Errorf("to a shut port: %+v", got)
			}
		})
	}
}

// disturb has signals end system calls, as the runtime does when it stops a goroutine.
func disturb(t *testing.T) (stop func()) {
	t.Helper()
	ended, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-ended:
				return
			default:
				tasks, _ := os.ReadDir("/proc/self/task")
				for _, task := range tasks {
					thread, _ := strconv.Atoi(task.Name())
					_ = unix.Tgkill(os.Getpid(), thread, unix.SIGURG) // a thread may be gone
				}
			}
		}
	}()
	return func() { close(ended); <-stopped }
}
