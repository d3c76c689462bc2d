//go:build linux

package network

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// Namespace is one network namespace of a [Topology]. Its methods may be called concurrently.
type Namespace struct {
	host   host
	handle int // an open file of the namespace

	mu      sync.Mutex
	closers []func() error // what was opened in it, in that order
	name    string

	sctp     sync.Map // the SCTP servers by port
	sctpOnce sync.Once
}

// Name returns the name of the namespace for "ip netns": another one in each Topology.
func (n *Namespace) Name() string { return n.name }

// Host returns the name of its target in the topology, with which its servers introduce themselves: "node", "pod1", "pod2", "remote",
// "remote-pod", "client".
func (n *Namespace) Host() string { return n.host.name }

// Addr returns its main address of a family.
func (n *Namespace) Addr(f model.Family) netip.Addr { return pick(n.host.main, f) }

// Extra returns the i-th of its further addresses of a family. Pods have 30 of them, from 1, the client has 65,000; the others have none,
// and Extra panics. Servers answer on them, and Dial can use them as source.
func (n *Namespace) Extra(f model.Family, i int) netip.Addr {
	return nth(pickRange(n.host.ranges, f).Addr(), i)
}

// LockFile returns the file that iptables-legacy shall lock in the namespace instead of the machine's (XTABLES_LOCKFILE). It goes with
// the Topology.
func (n *Namespace) LockFile() string { return filepath.Join(os.TempDir(), n.name+".xtables.lock") }

// Do calls a function on a thread that is in the namespace: sockets that it makes stay there for ever. It must start
// no goroutine that makes sockets itself.
func (n *Namespace) Do(f func() error) error {
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		back, err := unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			runtime.UnlockOSThread()
			result <- fmt.Errorf("opening the network namespace of the process: %w", err)
			return
		}
		defer func() { _ = unix.Close(back) }()
		if err := unix.Setns(n.handle, unix.CLONE_NEWNET); err != nil {
			runtime.UnlockOSThread()
			result <- fmt.Errorf("entering the network namespace %s: %w", n.name, err)
			return
		}
		err = f()
		if unix.Setns(back, unix.CLONE_NEWNET) == nil {
			runtime.UnlockOSThread() // otherwise the thread ends with this goroutine
		}
		result <- err
	}()
	return <-result
}

// Command returns a program that will run in the namespace. It is killed when ctx ends, and when the test dies.
func (n *Namespace) Command(ctx context.Context, program string, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, "ip", append([]string{"netns", "exec", n.name, program}, args...)...)
}

// Run runs a program in the namespace and returns what it printed to stdout. The error holds what it printed to stderr.
func (n *Namespace) Run(ctx context.Context, program string, args ...string) (string, error) {
	var complaint bytes.Buffer
	cmd := n.Command(ctx, program, args...)
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil {
		return string(out), fmt.Errorf("running %s %s in %s: %w: %s", program, strings.Join(args, " "), n.Host(), err,
			strings.TrimSpace(complaint.String()))
	}
	return string(out), nil
}

// HTTPClient returns a client whose connections start in the namespace. It keeps none of them.
func (n *Namespace) HTTPClient() *http.Client {
	return &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true, DialContext: n.DialContext}}
}

// DialContext connects from inside the namespace, as [net.Dialer.DialContext] does. The address must not need DNS.
func (n *Namespace) DialContext(ctx context.Context, network, address string) (conn net.Conn, err error) {
	err = n.Do(func() error {
		conn, err = (&net.Dialer{}).DialContext(ctx, network, address)
		return err
	})
	return conn, err
}

// Listen listens inside the namespace, as [net.Listen] does, until the Topology is closed.
func (n *Namespace) Listen(network, address string) (net.Listener, error) {
	listener, err := n.listen(network, address)
	if err == nil {
		n.closeLater(listener.Close)
	}
	return listener, err
}

// listen speaks plain TCP: Go would prefer multipath TCP, which is nothing that a pod does.
func (n *Namespace) listen(network, address string) (listener net.Listener, err error) {
	var config net.ListenConfig
	config.SetMultipathTCP(false)
	err = n.Do(func() error {
		listener, err = config.Listen(context.Background(), network, address)
		return err
	})
	return listener, err
}

func (n *Namespace) closeLater(f func() error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.closers = append(n.closers, f)
}

// close closes what was opened in the namespace, and the way to it.
func (n *Namespace) close() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, f := range n.closers {
		_ = f() // it may be closed already
	}
	n.closers = nil
	_ = os.Remove(n.LockFile()) // it is only there if somebody locked it
	if n.handle == 0 {
		return nil
	}
	err := unix.Close(n.handle)
	n.handle = 0
	return err
}
