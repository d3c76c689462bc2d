package probe

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/clusterip-operator/clusterip-operator/test/bench/stats"
)

const (
	// connectLimit is for connections that ought to succeed, pollLimit for asking whether one does.
	connectLimit = 2 * time.Second
	pollLimit    = 8 * time.Millisecond
	pollPause    = 500 * time.Microsecond
)

// connector answers requests. Its zero value has no targets.
type connector struct{ targets []netip.AddrPort }

func (c *connector) serve(r request) response {
	if len(r.Targets) > 0 {
		c.targets = r.Targets
	}
	var out response
	var err error
	switch {
	case len(c.targets) == 0:
		err = errors.New("there are no targets")
	case r.Until != "":
		out, err = c.until(r)
	case r.Exchange > 0:
		out.Rate, err = c.exchange(r)
	default:
		out, err = c.measure(r)
	}
	if err != nil {
		return response{Error: err.Error()}
	}
	return out
}

// measure connects to the targets in turn.
func (c *connector) measure(r request) (out response, err error) {
	out.Took = make(stats.Sample, 0, r.Count)
	start := time.Now()
	for i := 0; i < r.Count || r.For > 0 && time.Since(start) < r.For; i++ {
		to := c.targets[i%len(c.targets)]
		took, outcome, err := connect(to, connectLimit)
		switch {
		case err != nil:
			return out, err
		case outcome == Connected:
			out.Took = append(out.Took, float64(took)/1e3)
		default:
			out.Failed++
			out.Failure = fmt.Sprintf("%s: %s after %s", to, outcome, took)
		}
		if r.Pause > 0 {
			time.Sleep(r.Pause)
		}
	}
	return out, nil
}

// until asks the first target over and over.
func (c *connector) until(r request) (out response, err error) {
	streak, start := 0, time.Now()
	for time.Since(start) < r.Timeout {
		_, outcome, err := connect(c.targets[0], pollLimit)
		if err != nil {
			return out, err
		}
		if outcome != r.Until {
			streak = 0
		} else if streak++; streak == 1 {
			if out.At, err = Now(); err != nil {
				return out, err
			}
		}
		if streak >= max(1, r.Streak) {
			return out, nil
		}
		time.Sleep(pollPause)
	}
	return response{}, nil
}

// connect makes a connection, resets it, and returns connect()'s time. An error is a local one.
func connect(to netip.AddrPort, limit time.Duration) (took time.Duration, outcome Outcome, err error) {
	fd, err := unix.Socket(domain(to.Addr()), unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = unix.Close(fd) }()
	if err := unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1}); err != nil {
		return 0, "", err
	}
	timeout := unix.NsecToTimeval(int64(limit))
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &timeout); err != nil {
		return 0, "", err
	}
	took, errno := dial(fd, to)
	return took, outcomeOf(errno), nil
}

// dial is the system call alone.
func dial(fd int, to netip.AddrPort) (took time.Duration, errno unix.Errno) {
	var address unix.RawSockaddrInet6
	length := rawSockaddr(&address, to)
	start := time.Now()
	_, errno = raw(unix.SYS_CONNECT, fd, unsafe.Pointer(&address), length)
	return time.Since(start), errno
}

// raw makes a system call without telling Go's scheduler. The runtime's own signals end one on a
// socket with a time limit, which the kernel does not make again by itself: see signal(7).
func raw(call uintptr, fd int, at unsafe.Pointer, length uintptr) (n uintptr, errno unix.Errno) {
	for errno = unix.EINTR; errno == unix.EINTR; {
		n, _, errno = unix.RawSyscall(call, uintptr(fd), uintptr(at), length)
	}
	runtime.KeepAlive(at)
	return n, errno
}

func outcomeOf(errno unix.Errno) Outcome {
	switch errno {
	case 0:
		return Connected
	case unix.ECONNREFUSED:
		return Refused
	default:
		return Silence
	}
}

func domain(a netip.Addr) int {
	if a.Is4() {
		return unix.AF_INET
	}
	return unix.AF_INET6
}

func sockaddr(to netip.AddrPort) unix.Sockaddr {
	if to.Addr().Is4() {
		return &unix.SockaddrInet4{Port: int(to.Port()), Addr: to.Addr().As4()}
	}
	return &unix.SockaddrInet6{Port: int(to.Port()), Addr: to.Addr().As16()}
}

// rawSockaddr writes an address as the kernel reads it, and returns its length.
func rawSockaddr(raw *unix.RawSockaddrInet6, to netip.AddrPort) uintptr {
	binary.BigEndian.PutUint16((*[2]byte)(unsafe.Pointer(&raw.Port))[:], to.Port()) // at the same place in both families
	if to.Addr().Is4() {
		v4 := (*unix.RawSockaddrInet4)(unsafe.Pointer(raw))
		v4.Family, v4.Addr = unix.AF_INET, to.Addr().As4()
		return unsafe.Sizeof(*v4)
	}
	raw.Family, raw.Addr = unix.AF_INET6, to.Addr().As16()
	return unsafe.Sizeof(*raw)
}
