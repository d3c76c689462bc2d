//go:build linux

package traffic

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// server greets with its name and echoes, and hangs up while it is mute.
type server struct {
	name atomic.Pointer[string]
	mute atomic.Bool
}

func (s *server) tcp(t *testing.T) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go s.serve(conn)
		}
	}()
	return listener.Addr().String()
}

func (s *server) serve(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	if s.mute.Load() {
		return
	}
	_, _ = fmt.Fprintln(conn, *s.name.Load(), conn.LocalAddr())
	for lines := bufio.NewScanner(conn); lines.Scan() && !s.mute.Load(); {
		_, _ = fmt.Fprintln(conn, lines.Text())
	}
}

func (s *server) udp(t *testing.T) (address string) {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	go func() {
		buffer := make([]byte, 100)
		for {
			_, from, err := conn.ReadFrom(buffer)
			if err != nil {
				return
			}
			_, _ = conn.WriteTo([]byte(*s.name.Load()+"\n"), from)
		}
	}()
	return conn.LocalAddr().String()
}

func newServer(name string) *server {
	s := &server{}
	s.name.Store(&name)
	return s
}

func target(address string) Target {
	return Target{Dial: new(net.Dialer).DialContext, Address: address, Every: time.Millisecond}
}

// until waits for a Report that is as wanted.
func until(t *testing.T, traffic *Traffic, want func(Report) bool) {
	t.Helper()
	for range 500 {
		if want(traffic.SoFar()) {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("got %+v", traffic.SoFar())
}

func TestConnectionsAreCountedByWhoAnswered(t *testing.T) {
	s, b := newServer("a"), "b"
	address := s.tcp(t)
	traffic := Connections(target(address), 3)
	until(t, traffic, func(r Report) bool { return r.Answers["a "+address] > 20 })
	s.name.Store(&b)
	until(t, traffic, func(r Report) bool { return r.Answers["b "+address] > 20 })
	if r := traffic.Stop(); r.Lost != 0 || r.Tried != r.Answers["a "+address]+r.Answers["b "+address] {
		t.Errorf("got %+v", r)
	}
}

func TestConnectionsThatFailAreLost(t *testing.T) {
	s := newServer("a")
	s.mute.Store(true)
	traffic := Connections(target(s.tcp(t)), 2)
	defer traffic.Stop()
	until(t, traffic, func(r Report) bool { return r.Lost > 2*shown && len(r.Losses) == shown && len(r.Answers) == 0 })
	refused := Connections(target("127.0.0.1:1"), 1)
	defer refused.Stop()
	until(t, refused, func(r Report) bool { return r.Lost > 0 && strings.Contains(r.Losses[0], "refused") })
}

func TestAHeldConnectionIsLostOnce(t *testing.T) {
	s := newServer("a")
	address := s.tcp(t)
	traffic, err := Hold(context.Background(), target(address), 4)
	if err != nil {
		t.Fatal(err)
	}
	until(t, traffic, func(r Report) bool { return r.Answers["a "+address] > 20 && r.Lost == 0 })
	s.mute.Store(true)
	until(t, traffic, func(r Report) bool { return r.Lost == 4 })
	if r := traffic.Stop(); r.Lost != 4 {
		t.Errorf("got %+v", r)
	}
}

func TestAFlowMustNotChangeItsServer(t *testing.T) {
	s, b := newServer("a"), "b"
	traffic, err := Flow(context.Background(), target(s.udp(t)), 2)
	if err != nil {
		t.Fatal(err)
	}
	until(t, traffic, func(r Report) bool { return r.Answers["a"] > 20 && r.Lost == 0 })
	s.name.Store(&b)
	until(t, traffic, func(r Report) bool { return r.Lost > 2 })
	if r := traffic.Stop(); r.Answers["b"] != 0 {
		t.Errorf("got %+v", r)
	}
}

func TestHoldNeedsAServer(t *testing.T) {
	if _, err := Hold(context.Background(), target("127.0.0.1:1"), 1); err == nil {
		t.Error("no error")
	}
}
