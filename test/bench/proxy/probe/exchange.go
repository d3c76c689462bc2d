package probe

import (
	"fmt"
	"net/netip"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// exchange returns how many requests were answered in a second.
func (c *connector) exchange(r request) (rate float64, err error) {
	connections, requests := 1, r.Exchange
	if r.Each {
		connections, requests = r.Exchange, 1
	}
	var took time.Duration
	for i := range connections {
		one, err := converse(c.targets[i%len(c.targets)], requests, r.Each)
		if err != nil {
			return 0, err
		}
		took += one
	}
	return float64(r.Exchange) / took.Seconds(), nil
}

// converse has n requests answered on a new connection, and returns what they took; whole with the
// connection itself.
func converse(to netip.AddrPort, n int, whole bool) (took time.Duration, err error) {
	start := time.Now()
	fd, err := unix.Socket(domain(to.Addr()), unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	defer func() {
		_ = unix.Close(fd)
		if whole {
			took = time.Since(start)
		}
	}()
	timeout := unix.NsecToTimeval(int64(connectLimit))
	for _, option := range []int{unix.SO_SNDTIMEO, unix.SO_RCVTIMEO} {
		if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, option, &timeout); err != nil {
			return 0, err
		}
	}
	if _, errno := dial(fd, to); errno != 0 {
		return 0, fmt.Errorf("connecting to %s: %w", to, errno)
	}
	if !whole { // what the first one warms up is not counted
		err = ask(fd)
		start = time.Now()
	}
	for i := 0; i < n && err == nil; i++ {
		err = ask(fd)
	}
	if err != nil {
		return 0, fmt.Errorf("asking %s: %w", to, err)
	}
	return time.Since(start), nil
}

// ask sends a byte and waits for one.
func ask(fd int) error {
	if n, err := one(unix.SYS_WRITE, fd); n != 1 {
		return fmt.Errorf("sending a request: %w", err)
	}
	if n, err := one(unix.SYS_READ, fd); n != 1 {
		return fmt.Errorf("reading an answer: %w", err)
	}
	return nil
}

// one reads or writes a byte. At the end of what the other side sends, n is 0.
func one(call uintptr, fd int) (n int, err unix.Errno) {
	var b [1]byte
	got, err := raw(call, fd, unsafe.Pointer(&b), 1)
	if err != 0 {
		return -1, err
	}
	return int(got), 0
}

// answerAll answers what comes on one connection after the other, for ever. What goes wrong with a
// connection is that of its client.
func answerAll(listener int) error {
	for {
		fd, _, err := unix.Accept4(listener, unix.SOCK_CLOEXEC)
		if err != nil {
			continue
		}
		for {
			if n, _ := one(unix.SYS_READ, fd); n != 1 {
				break
			}
			if n, _ := one(unix.SYS_WRITE, fd); n != 1 {
				break
			}
		}
		_ = unix.Close(fd)
	}
}
