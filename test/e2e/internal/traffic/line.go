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
	"time"

	"golang.org/x/sys/unix"
)

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
