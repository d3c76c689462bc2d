//go:build linux

package network

import (
	"bufio"
	"cmp"
	"fmt"
	"net"
	"time"
)

// Conn is a TCP connection to a [Server] that stays open. It is not for concurrent use.
type Conn struct {
	conn   net.Conn
	reader *bufio.Reader
	rounds int
}

// Connect is Dial over TCP, but keeps the connection, which is nil unless the Outcome is Connected.
func (n *Namespace) Connect(p Probe) (*Conn, Result) {
	p.Timeout = cmp.Or(p.Timeout, DefaultTimeout)
	conn, err := n.open(p)
	if err != nil {
		return nil, failure(err)
	}
	c := &Conn{conn: conn, reader: bufio.NewReader(conn)}
	_ = conn.SetDeadline(time.Now().Add(p.Timeout))
	line, err := c.reader.ReadString('\n')
	if err != nil {
		_ = conn.Close()
		return nil, failure(err)
	}
	return c, success(line, addrPort(conn.LocalAddr()))
}

// Echo sends a line and waits for its return.
func (c *Conn) Echo(timeout time.Duration) error {
	c.rounds++
	want := fmt.Sprintf("round %d\n", c.rounds)
	_ = c.conn.SetDeadline(time.Now().Add(timeout))
	if _, err := c.conn.Write([]byte(want)); err != nil {
		return fmt.Errorf("sending round %d: %w", c.rounds, err)
	}
	line, err := c.reader.ReadString('\n')
	if err != nil {
		return fmt.Errorf("waiting for the return of round %d: %w", c.rounds, err)
	}
	if line != want {
		return fmt.Errorf("%q came back as %q", want, line)
	}
	return nil
}

// Close closes the connection.
func (c *Conn) Close() error { return c.conn.Close() }
