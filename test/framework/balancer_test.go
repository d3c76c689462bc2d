package framework

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"
)

// echo is a backend that answers every line with its own name.
type echo struct {
	Backend
	ready atomic.Bool
	heard chan string
}

func startEcho(t *testing.T, name string) *echo {
	t.Helper()
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	e := &echo{heard: make(chan string, 10)}
	e.ready.Store(true)
	e.Backend = Backend{Address: listener.Addr().String(), Ready: func(context.Context) error {
		if !e.ready.Load() {
			return errors.New("not ready")
		}
		return nil
	}}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				for lines := bufio.NewScanner(conn); lines.Scan(); {
					e.heard <- lines.Text()
					_, _ = fmt.Fprintln(conn, name)
				}
				_ = conn.Close()
			}()
		}
	}()
	return e
}

func startBalancer(t *testing.T, backends ...*echo) *Balancer {
	t.Helper()
	b, err := newBalancer()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Stop(); err != nil {
			t.Error(err)
		}
	})
	for _, e := range backends {
		b.Add(e.Backend)
	}
	waitForReady(t, b, len(backends))
	return b
}

func waitForReady(t *testing.T, b *Balancer, n int) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Second); len(b.Ready()) != n; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d backends are ready, want %d", len(b.Ready()), n)
		}
	}
}

// caller is a client of a balancer.
type caller struct {
	net.Conn
	lines   *bufio.Reader
	refused error // already when it connected
}

func call(t *testing.T, b *Balancer) *caller {
	t.Helper()
	conn, err := net.Dial("tcp4", fmt.Sprintf("127.0.0.1:%d", b.Port()))
	if err != nil {
		return &caller{refused: err}
	}
	t.Cleanup(func() { _ = conn.Close() })
	return &caller{Conn: conn, lines: bufio.NewReader(conn)}
}

// ask sends a line and returns the answer without its end, and an error when there is none within the time.
func (c *caller) ask(patience time.Duration) (string, error) {
	if c.refused != nil {
		return "", c.refused
	}
	_ = c.SetDeadline(time.Now().Add(patience))
	if _, err := fmt.Fprintln(c, "hello"); err != nil {
		return "", err
	}
	answer, err := c.lines.ReadString('\n')
	return answer[:max(0, len(answer)-1)], err
}

func TestBalancerTakesTurns(t *testing.T) {
	b := startBalancer(t, startEcho(t, "a"), startEcho(t, "b"))
	answers := map[string]int{}
	for range 6 {
		c := call(t, b)
		for range 2 { // a connection stays where it is
			answer, err := c.ask(time.Second)
			if err != nil {
				t.Fatal(err)
			}
			answers[answer]++
		}
	}
	if answers["a"] != 6 || answers["b"] != 6 {
		t.Errorf("not in turn: %v", answers)
	}
	if total := b.Connections(); len(total) != 2 {
		t.Errorf("connections: %v", total)
	}
}

func TestBalancerLeavesOutWhoIsNotReady(t *testing.T) {
	ready, not := startEcho(t, "ready"), startEcho(t, "not")
	b := startBalancer(t, ready, not)
	not.ready.Store(false)
	waitForReady(t, b, 1)
	for range 4 {
		if answer, err := call(t, b).ask(time.Second); answer != "ready" {
			t.Errorf("answered by %q (%v)", answer, err)
		}
	}
	b.Remove(ready.Address)
	if answer, err := call(t, b).ask(time.Second); err == nil {
		t.Errorf("answered by %q although nobody is ready", answer)
	}
	if refused := b.Connections()[""]; refused != 1 {
		t.Errorf("%d refused", refused)
	}
}

func TestBalancerCuts(t *testing.T) {
	b := startBalancer(t, startEcho(t, "a"))
	c := call(t, b)
	if _, err := c.ask(time.Second); err != nil {
		t.Fatal(err)
	}
	if n := b.Cut(); n != 1 {
		t.Errorf("%d connections were cut", n)
	}
	if answer, err := c.ask(time.Second); err == nil {
		t.Errorf("%q answered on a connection that was cut", answer)
	}
	if _, err := call(t, b).ask(time.Second); err != nil {
		t.Errorf("a new connection: %v", err)
	}
}

func TestBalancerClosesWhatIsIdle(t *testing.T) {
	t.Parallel()
	e := startEcho(t, "a")
	b := startBalancer(t, e)
	idle := call(t, b)
	if _, err := idle.ask(time.Second); err != nil {
		t.Fatal(err)
	}
	<-e.heard
	b.Inflict(Trouble{SlowReplies: 3 * time.Second})
	busy, answered := call(t, b), make(chan error, 1)
	go func() {
		_, err := busy.ask(10 * time.Second)
		answered <- err
	}()
	<-e.heard
	time.Sleep(5 * idleAfter)
	if n := b.CloseIdle(); n != 1 {
		t.Errorf("%d connections were idle", n)
	}
	if answer, err := idle.ask(time.Second); err == nil {
		t.Errorf("%q answered on a connection that was closed", answer)
	}
	if err := <-answered; err != nil {
		t.Errorf("a connection with a client that waits: %v", err)
	}
}

func TestBalancerTrouble(t *testing.T) {
	t.Parallel()
	const late = 2 * time.Second
	for name, tc := range map[string]struct {
		trouble    Trouble
		wantHeard  bool // within half of the time
		wantAnswer bool // within twice the time
	}{
		"none":          {Trouble{}, true, true},
		"refused":       {Trouble{Refuse: true}, false, false},
		"slow requests": {Trouble{SlowRequests: late}, false, true},
		"slow replies":  {Trouble{SlowReplies: late}, true, true},
		"black hole":    {Trouble{SlowReplies: time.Hour}, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := startEcho(t, "a")
			b := startBalancer(t, e)
			b.Inflict(tc.trouble)
			heard := make(chan bool, 1)
			go func() {
				select {
				case <-e.heard:
					heard <- true
				case <-time.After(late / 2):
					heard <- false
				}
			}()
			start := time.Now()
			_, err := call(t, b).ask(2 * late)
			if got := <-heard; got != tc.wantHeard {
				t.Errorf("heard early: %t", got)
			}
			if (err == nil) != tc.wantAnswer {
				t.Errorf("answer: %v", err)
			}
			delayed := tc.trouble.SlowReplies+tc.trouble.SlowRequests > 0
			if took := time.Since(start); err == nil && (took >= late) != delayed {
				t.Errorf("answered after %s", took)
			}
		})
	}
}

// A request that is late reaches the backend although its sender has given up: so it is with packets.
func TestBalancerDeliversWhatNobodyWaitsFor(t *testing.T) {
	e := startEcho(t, "a")
	b := startBalancer(t, e)
	b.Inflict(Trouble{SlowRequests: 200 * time.Millisecond})
	c := call(t, b)
	if _, err := c.ask(20 * time.Millisecond); err == nil {
		t.Fatal("answered at once")
	}
	_ = c.Close()
	select {
	case <-e.heard:
	case <-time.After(2 * time.Second):
		t.Error("the backend never heard of it")
	}
}
