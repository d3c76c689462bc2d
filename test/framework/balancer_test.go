package framework

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/clusterip-operator/clusterip-operator/test/framework/network"
)

// echo starts a backend that sends every line back, and tells what it heard.
func echo(t *testing.T) (Backend, <-chan string) {
	t.Helper()
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	heard := make(chan string, 10)
	go network.Accept(listener, func(conn net.Conn) {
		for lines := bufio.NewScanner(conn); lines.Scan(); {
			heard <- lines.Text()
			_, _ = fmt.Fprintln(conn, lines.Text())
		}
		_ = conn.Close()
	})
	return Backend{Address: listener.Addr().String(), Ready: func(context.Context) error { return nil }}, heard
}

// askOnce sends a line on a new connection to a balancer and waits for the answer.
func askOnce(b *Balancer, timeout time.Duration) error {
	conn, err := net.Dial("tcp4", fmt.Sprintf("127.0.0.1:%d", b.Port()))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(timeout))
	if _, err := fmt.Fprintln(conn, "hello"); err != nil {
		return err
	}
	_, err = bufio.NewReader(conn).ReadString('\n')
	return err
}

// A suite passes unharmed when the faults that it orders do not happen. So they are tested here.
func TestBalancerTrouble(t *testing.T) {
	const late = 2 * time.Second
	for name, tc := range map[string]struct {
		trouble    Trouble
		wantHeard  bool // by the backend, within half of the time
		wantAnswer bool // to the client, within twice the time
	}{
		"none":          {Trouble{}, true, true},
		"refused":       {Trouble{Refuse: true}, false, false},
		"slow requests": {Trouble{SlowRequests: late}, false, true},
		"slow replies":  {Trouble{SlowReplies: late}, true, true},
		"black hole":    {Trouble{SlowReplies: time.Hour}, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			backend, heard := echo(t)
			b, err := newBalancer()
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = b.Stop() })
			b.Add(backend)
			for len(b.Ready()) == 0 {
				time.Sleep(10 * time.Millisecond)
			}
			b.Inflict(tc.trouble)
			start, answer := time.Now(), make(chan error, 1)
			go func() { answer <- askOnce(b, 2*late) }()
			early := false
			select {
			case <-heard:
				early = true
			case <-time.After(late / 2):
			}
			err = <-answer
			delayed := tc.trouble.SlowReplies+tc.trouble.SlowRequests > 0
			if early != tc.wantHeard || (err == nil) != tc.wantAnswer || err == nil && (time.Since(start) >= late) != delayed {
				t.Errorf("heard early: %t, answer: %v after %s", early, err, time.Since(start))
			}
		})
	}
}
