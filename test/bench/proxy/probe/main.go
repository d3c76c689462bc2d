package probe

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/netip"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// Main is the program: "client CPU" answers requests from stdin, "server CPU ADDRESS" accepts
// connections, "answerer CPU ADDRESS" answers what comes on them. All end with stdin. It returns
// the exit status.
func Main(args []string) int {
	if err := run(args); err != nil {
		fmt.Fprintln(os.Stderr, "probe:", err)
		return 1
	}
	return 0
}

func run(args []string) error {
	if len(args) < 2 {
		return fmt.Errorf("%q: say client CPU, or server or answerer CPU ADDRESS", args)
	}
	cpu, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	runtime.LockOSThread()
	if err := pin(cpu); err != nil {
		return err
	}
	debug.SetGCPercent(-1) // nothing stops the world while the clock runs
	if len(args) == 3 {
		return accept(args[2], args[0] == "answerer")
	}
	return answer(os.Stdin, os.Stdout)
}

// pin keeps the calling thread on one processor.
func pin(cpu int) error {
	var set unix.CPUSet
	set.Set(cpu)
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		return fmt.Errorf("pinning to processor %d: %w", cpu, err)
	}
	return nil
}

// Nice values: as usual, and before all other processes.
const usual, first = 0, -20

// hurry gives the calling thread a nice value.
func hurry(nice int) error {
	if err := unix.Setpriority(unix.PRIO_PROCESS, 0, nice); err != nil {
		return fmt.Errorf("setting the priority: %w", err)
	}
	return nil
}

// answer serves requests until there are no more.
func answer(in io.Reader, out io.Writer) error {
	var c connector
	requests, responses := json.NewDecoder(bufio.NewReader(in)), json.NewEncoder(out)
	for {
		var r request
		if err := requests.Decode(&r); err == io.EOF {
			return nil
		} else if err != nil {
			return fmt.Errorf("reading a request: %w", err)
		}
		nice := usual
		if r.Count > 0 || r.Exchange > 0 {
			nice = first
		}
		if err := hurry(nice); err != nil {
			return err
		}
		if err := responses.Encode(c.serve(r)); err != nil {
			return fmt.Errorf("answering: %w", err)
		}
		runtime.GC()
	}
}

// accept accepts connections, and answers on them or keeps the last of them open for a while, so
// that clients end them.
func accept(address string, answering bool) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	listener, err := listen(to)
	if err != nil {
		return fmt.Errorf("listening on %s: %w", to, err)
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	if answering {
		runtime.GOMAXPROCS(2) // one for what ends with stdin
		if err := hurry(first); err != nil {
			return err
		}
		tell(listener)
		return answerAll(listener)
	}
	if err := unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: schedIdle}, 0); err != nil {
		return fmt.Errorf("lowering the priority: %w", err)
	}
	tell(listener)
	return drain(listener)
}

// tell prints the port on which a server listens.
func tell(listener int) {
	switch at, _ := unix.Getsockname(listener); at := at.(type) {
	case *unix.SockaddrInet4:
		fmt.Println(at.Port)
	case *unix.SockaddrInet6:
		fmt.Println(at.Port)
	}
}

const (
	schedIdle = 5 // SCHED_IDLE
	backlog   = 4096
)

func listen(to netip.AddrPort) (fd int, err error) {
	if fd, err = unix.Socket(domain(to.Addr()), unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0); err != nil {
		return fd, err
	}
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
		return fd, err
	}
	if err := unix.Bind(fd, sockaddr(to)); err != nil {
		return fd, err
	}
	return fd, unix.Listen(fd, backlog)
}

// drain accepts for ever. What goes wrong with one connection is that of its client.
func drain(listener int) error {
	var open [64]int
	for i := 0; ; i++ {
		fd, _, err := unix.Accept4(listener, unix.SOCK_CLOEXEC)
		if err != nil {
			continue
		}
		slot := &open[i%len(open)]
		if *slot != 0 {
			_ = unix.Close(*slot)
		}
		*slot = fd
	}
}

// Now reads the clock that all processes of the machine share.
func Now() (Moment, error) {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		return 0, fmt.Errorf("reading the clock: %w", err)
	}
	return Moment(time.Duration(t.Nano())), nil
}
