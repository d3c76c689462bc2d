//go:build linux

package traffic

import (
	"context"
	"net"
	"sync"
	"time"
)

// attemptTimeout is how long one attempt may take. It is longer than the kernel waits before it sends a first packet again.
const attemptTimeout = 3 * time.Second

// Target is where traffic goes and how.
type Target struct {
	// Dial connects from where the traffic shall come from. It is called concurrently.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Address is an IP address with a port, at which servers of package network can be reached.
	Address string
	// Every is the pause between two connections, or two questions of one connection.
	Every time.Duration
}

// Traffic runs until Stop.
type Traffic struct {
	account *account
	ctx     context.Context // the life of the goroutines
	cancel  context.CancelFunc
	running sync.WaitGroup
}

// Connections makes one TCP connection after the other, asks on each once and closes it; workers do so side by side.
func Connections(target Target, workers int) *Traffic {
	t := newTraffic()
	for range workers {
		t.repeat(target.Every, func(ctx context.Context) bool {
			who, err := target.once(ctx)
			t.book(ctx, who, err)
			return true
		}, func() error { return nil })
	}
	return t
}

func newTraffic() *Traffic {
	ctx, cancel := context.WithCancel(context.Background())
	return &Traffic{account: newAccount(), ctx: ctx, cancel: cancel}
}

// repeat takes a step again and again, until Stop or until the step says that it was the last.
func (t *Traffic) repeat(every time.Duration, step func(context.Context) bool, end func() error) {
	t.running.Go(func() {
		defer func() { _ = end() }()
		for t.pause(every) && step(t.ctx) {
		}
	})
}

// pause reports whether to go on.
func (t *Traffic) pause(d time.Duration) bool {
	select {
	case <-t.ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// book counts what happened, unless it happened because of Stop.
func (t *Traffic) book(ctx context.Context, who string, err error) {
	switch {
	case err == nil:
		t.account.answered(who)
	case ctx.Err() == nil:
		t.account.lost(err)
	}
}

// SoFar returns the account of a Traffic that goes on.
func (t *Traffic) SoFar() Report { return t.account.read() }

// Stop ends the traffic and returns its account. It may be called twice.
func (t *Traffic) Stop() Report {
	t.cancel()
	t.running.Wait()
	return t.account.read()
}

// once makes a connection, asks and closes. The end is a reset, so that no port waits for late packets.
func (t Target) once(ctx context.Context) (string, error) {
	l, err := t.open(ctx, "tcp")
	if err != nil {
		return "", err
	}
	_ = l.conn.(*net.TCPConn).SetLinger(0)
	return l.who, l.conn.Close()
}
