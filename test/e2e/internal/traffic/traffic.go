//go:build linux

package traffic

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
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

// Hold opens n TCP connections, or fails, and then uses each again and again. One that fails is lost once and not opened again.
func Hold(ctx context.Context, target Target, n int) (*Traffic, error) {
	return keep(ctx, target, "tcp", n)
}

// Flow is Hold for UDP: n sockets, each with one source port. A datagram without an answer is a loss, and so is the answer of another
// server than before; the socket is kept.
func Flow(ctx context.Context, target Target, n int) (*Traffic, error) {
	return keep(ctx, target, "udp", n)
}

func keep(ctx context.Context, target Target, network string, n int) (*Traffic, error) {
	t := newTraffic()
	for range n {
		l, err := target.open(ctx, network)
		if err != nil {
			t.Stop()
			return nil, fmt.Errorf("opening a connection to stay: %w", err)
		}
		t.repeat(target.Every, func(ctx context.Context) bool { return t.use(ctx, l) }, l.conn.Close)
	}
	return t, nil
}

// use reports whether the line is of use any more.
func (t *Traffic) use(ctx context.Context, l *line) bool {
	err := l.use()
	t.book(ctx, l.who, err)
	return err == nil || !l.stream()
}

// line is one connection to a server of package network, which greets with its name and its address, and then echoes. Over UDP
// it greets again and again.
type line struct {
	conn   net.Conn
	reader *bufio.Reader
	// who greeted first.
	who string
}

// open connects and listens to the greeting.
func (t Target) open(ctx context.Context, network string) (*line, error) {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	conn, err := t.Dial(ctx, network, t.Address)
	if err != nil {
		return nil, err
	}
	l := &line{conn: conn, reader: bufio.NewReader(conn)}
	if l.who, err = l.greeting(); err != nil {
		return nil, errors.Join(l.explain(err), conn.Close())
	}
	return l, nil
}

func (l *line) stream() bool {
	_, ok := l.conn.(*net.TCPConn)
	return ok
}

func (l *line) greeting() (string, error) {
	if !l.stream() {
		return l.ask()
	}
	return l.hear()
}

// use asks on a line that was opened before.
func (l *line) use() error {
	answer, err := l.ask()
	switch {
	case err != nil:
		return l.explain(err)
	case !l.stream() && answer != l.who:
		return l.explain(fmt.Errorf("answered by %s, and before by %s", answer, l.who))
	default:
		return nil
	}
}

func (l *line) ask() (string, error) {
	if _, err := io.WriteString(l.conn, "still there?\n"); err != nil {
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
		return "", err
	}
	if n := l.sentAgain(); n > 0 {
		return "", fmt.Errorf("%d packets were sent again", n)
	}
	words := strings.Fields(text)
	return strings.Join(words[:min(2, len(words))], " "), nil
}

func (l *line) explain(err error) error {
	return fmt.Errorf("from %s to %s (%s): %w", l.conn.LocalAddr(), l.conn.RemoteAddr(), l.who, err)
}

// sentAgain is how many packets of a TCP connection, the first one included, did not arrive at once.
func (l *line) sentAgain() (again int) {
	tcp, ok := l.conn.(*net.TCPConn)
	if !ok {
		return 0
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return 0
	}
	_ = raw.Control(func(fd uintptr) {
		if info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO); err == nil {
			again = int(info.Total_retrans)
		}
	})
	return again
}
