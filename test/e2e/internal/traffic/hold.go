//go:build linux

package traffic

import (
	"context"
	"fmt"
)

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
