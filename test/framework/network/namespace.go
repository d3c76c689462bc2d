package network

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// Namespace is one network namespace of a [Topology]. Its methods may be called concurrently.
type Namespace struct {
	Netns
	host host
	lock string // a file

	threads *threads // in its cgroup, nil without

	mu      sync.Mutex
	closers []func() error // what was opened in it, in that order

	sources  atomic.Uint32 // of DialContext
	sctp     sync.Map      // the SCTP servers by port
	sctpOnce sync.Once
}

// Do is that of [Netns], on a thread in the namespace's cgroup if it has one.
func (n *Namespace) Do(f func() error) error {
	if n.threads != nil {
		return n.threads.do(f)
	}
	return n.Netns.Do(f)
}

// Host returns its name in the topology, which its servers tell: "node", "pod1", "pod2", "remote",
// "remote-pod", "client".
func (n *Namespace) Host() string { return n.host.name }

// Addr returns its main address of a family.
func (n *Namespace) Addr(f model.Family) netip.Addr { return pick(n.host.main, f) }

// Extra returns the i-th of its further addresses of a family. Pods have 30, from 1, the client has
// 65,000; other hosts have none, and Extra panics. Servers answer on them, and Dial can use them.
func (n *Namespace) Extra(f model.Family, i int) netip.Addr {
	return nth(pickRange(n.host.ranges, f).Addr(), i)
}

// LockFile returns the file that iptables-legacy shall lock here instead of the machine's
// (XTABLES_LOCKFILE). It goes with the Topology.
func (n *Namespace) LockFile() string { return n.lock }

// newNamespace makes a host's namespace, with the sysctls that must be set before its interfaces.
func newNamespace(h host) (*Namespace, error) {
	netns, err := NewNetns(h.name)
	if err != nil {
		return nil, err
	}
	n := &Namespace{Netns: netns, host: h}
	// It has a name, for a program without all capabilities of this one cannot open /proc/PID/fd.
	lock, err := os.CreateTemp("", "xtables-*.lock")
	if err != nil {
		return nil, errors.Join(fmt.Errorf("making the lock of iptables for %s: %w", h.name, err), netns.Close())
	}
	n.lock = lock.Name()
	if err := errors.Join(lock.Close(), n.Sysctl(sysctls)); err != nil {
		return nil, errors.Join(err, n.Close())
	}
	return n, nil
}

// HTTPClient returns a client whose connections start in the namespace. It keeps none of them.
func (n *Namespace) HTTPClient() *http.Client {
	return &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true, DialContext: n.DialContext}}
}

// DialContext connects inside, as [net.Dialer.DialContext] does, without DNS. While there are some,
// source ports are new: the kernel may give one to connections to two virtual IPs, and if these
// lead to the same endpoint, IPVS takes one for the other.
func (n *Namespace) DialContext(ctx context.Context, network, address string) (conn net.Conn, err error) {
	err = n.Do(func() error {
		for range sourcePorts {
			port := int(firstSourcePort + n.sources.Add(1)%sourcePorts)
			dialer := net.Dialer{LocalAddr: &net.TCPAddr{Port: port}}
			if network == "udp" {
				dialer.LocalAddr = &net.UDPAddr{Port: port}
			}
			if conn, err = dialer.DialContext(ctx, network, address); !errors.Is(err, syscall.EADDRINUSE) {
				return err
			}
		}
		return err
	})
	return conn, err
}

// Source ports of DialContext: no test server listens there, and the kernel does not choose them.
const firstSourcePort, sourcePorts = 12000, 8000

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

// Close closes what was opened in the namespace, and the way to it. The Topology calls it.
func (n *Namespace) Close() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, f := range n.closers {
		_ = f() // it may be closed already
	}
	n.closers = nil
	return errors.Join(os.Remove(n.lock), n.Netns.Close())
}
