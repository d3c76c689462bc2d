package nfnetlink

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// tries limits how often an interrupted exchange is repeated.
const tries = 8

// answerTimeout limits one answer of the kernel, which may have to finish other requests first.
var answerTimeout = unix.Timeval{Sec: 20}

// Conn connects to the kernel's netfilter, in the network namespace of the thread that opened it,
// whatever thread uses it. Goroutines' requests queue. The zero value is of no use.
type Conn struct {
	socket *nl.NetlinkSocket
	shared map[int]*nl.SocketHandle
}

// Request is a message to one subsystem of netfilter.
type Request struct {
	Subsystem, Command uint8
	// Flags are those of netlink, as NLM_F_ACK, without NLM_F_REQUEST.
	Flags uint16
	// Family is an address family, as AF_INET, where the command cares.
	Family uint8
	Attrs  Attrs
}

// Open opens a connection that also receives what the kernel tells the groups, by number as in
// linux/netfilter/nfnetlink.h. Groups and most requests need CAP_NET_ADMIN, the rest no privilege.
func Open(groups ...uint) (*Conn, error) {
	socket, err := nl.Subscribe(unix.NETLINK_NETFILTER, groups...)
	if err != nil {
		return nil, fmt.Errorf("opening a netlink socket to netfilter: %w", err)
	}
	if err := errors.Join(socket.SetReceiveTimeout(&answerTimeout), socket.SetSendTimeout(&answerTimeout)); err != nil {
		socket.Close()
		return nil, fmt.Errorf("setting the timeout of a netlink socket: %w", err)
	}
	return &Conn{socket: socket, shared: map[int]*nl.SocketHandle{unix.NETLINK_NETFILTER: {Socket: socket}}}, nil
}

// Close closes the connection. It must not be used afterwards.
func (c *Conn) Close() { c.socket.Close() }

// Do sends a request and waits until the kernel has done it. Errors of it are a syscall.Errno.
func (c *Conn) Do(r Request) error {
	r.Flags |= unix.NLM_F_ACK
	return c.Get(r, func(Attrs) {})
}

// Dump asks for all there is and hands every answer to each, which must not keep it. If the table
// changed so much that the answers may be incomplete, the error is one for [Again].
func (c *Conn) Dump(r Request, each func(Attrs)) error {
	r.Flags |= unix.NLM_F_DUMP
	return c.Get(r, each)
}

// Get sends a request that the kernel answers with messages, and hands each message to each.
func (c *Conn) Get(r Request, each func(Attrs)) error {
	request := nl.NewNetlinkRequest(int(r.Subsystem)<<8|int(r.Command), int(r.Flags))
	request.Sockets = c.shared
	request.AddData(&nl.Nfgenmsg{NfgenFamily: r.Family, Version: nl.NFNETLINK_V0})
	request.AddRawData(r.Attrs)
	return request.ExecuteIter(unix.NETLINK_NETFILTER, 0, func(message []byte) bool {
		if len(message) >= nl.SizeofNfgenmsg {
			each(message[nl.SizeofNfgenmsg:])
		}
		return true
	})
}

// Message is what the kernel tells without being asked.
type Message struct {
	Subsystem, Command, Family uint8
	Attrs                      Attrs
}

// Receive waits for messages of the groups, and what else this connection asked to be told; EAGAIN
// if none came in that time. What comes while another request waits for its answer is lost.
func (c *Conn) Receive(within time.Duration) ([]Message, error) {
	timeout := unix.NsecToTimeval(within.Nanoseconds())
	if err := c.socket.SetReceiveTimeout(&timeout); err != nil {
		return nil, err
	}
	received, _, err := c.socket.Receive()
	messages := make([]Message, 0, len(received))
	for _, m := range received {
		if len(m.Data) >= nl.SizeofNfgenmsg {
			messages = append(messages, Message{Subsystem: uint8(m.Header.Type >> 8), Command: uint8(m.Header.Type), Family: m.Data[0], Attrs: m.Data[nl.SizeofNfgenmsg:]})
		}
	}
	return messages, errors.Join(err, c.socket.SetReceiveTimeout(&answerTimeout))
}

// Again calls f until it is not interrupted, a few times at most, or ctx ends; nothing follows.
func Again(ctx context.Context, f func() error) error {
	var err error
	for range tries {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err = f(); !Interrupted(err) {
			return err
		}
	}
	return err
}

// Agree is [Again] for a dump of which f returns a sum. The kernel calls a dump interrupted
// whatever is written meanwhile, even to another table. So two that are interrupted one after the
// other, and have the same sum, are taken for whole.
func Agree(ctx context.Context, f func() (sum uint64, err error)) error {
	var before *uint64
	return Again(ctx, func() error {
		sum, err := f()
		if !errors.Is(err, nl.ErrDumpInterrupted) {
			return err
		}
		if before != nil && *before == sum {
			return nil
		}
		before = &sum
		return err
	})
}

// Interrupted reports whether an exchange failed only because the kernel was written meanwhile.
func Interrupted(err error) bool {
	return errors.Is(err, syscall.EINTR) || errors.Is(err, nl.ErrDumpInterrupted)
}
