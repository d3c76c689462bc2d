//go:build linux

package network

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

const (
	// folder is where "ip netns" keeps the namespaces that have a name.
	folder = "/run/netns"
	// prefix begins the name of every namespace of this package. The id of its process comes next.
	prefix = "cipo-"
	// readyTimeout is how long a new Topology may take until packets flow.
	readyTimeout = 20 * time.Second
)

// Ports are those on which every pod and node of a new Topology serves, with every protocol.
var Ports = []uint16{8080, 8081, 8082}

// topologies makes the names unique in a process. It begins at a random number: a killed process may have had the same id.
var (
	topologies    atomic.Uint32
	firstTopology = rand.Uint32()
)

// Topology is a network of namespaces. Its zero value is of no use: see [New].
type Topology struct {
	// Node is where the proxy runs. Its Addr is the primary node IP.
	Node *Namespace
	// Pod1 and Pod2 are pods on the node.
	Pod1, Pod2 *Namespace
	// Remote is another node, without a proxy, and RemotePod a pod on it.
	Remote, RemotePod *Namespace
	// Client is outside of the cluster, a neighbour of the node. It never forwards.
	Client *Namespace

	id string
}

// New makes a Topology and starts its servers, on [Ports], in every namespace but Client. It needs root. What it made is gone after an error.
func New(ctx context.Context) (*Topology, error) {
	sweep()
	b := &Topology{id: fmt.Sprintf("%s%d-%04x", prefix, os.Getpid(), (firstTopology+topologies.Add(1))&0xffff)}
	if err := b.build(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("making a network: %w", err), b.Close())
	}
	return b, nil
}

func (b *Topology) build(ctx context.Context) error {
	targets := []**Namespace{&b.Node, &b.Remote, &b.Client, &b.Pod1, &b.Pod2, &b.RemotePod} // as in hosts
	for i, target := range targets {
		n, err := b.add(ctx, hosts[i])
		if err != nil {
			return err
		}
		*target = n
	}
	if err := b.connect(ctx); err != nil {
		return err
	}
	if err := b.serve(); err != nil {
		return err
	}
	return b.awaitReady(ctx)
}

// awaitReady waits until every link carries packets and the neighbours are resolved: both begin to work a moment after
// the interfaces are up, on a busy machine up to a second.
func (b *Topology) awaitReady(ctx context.Context) error {
	for _, f := range Families {
		for _, to := range []netip.Addr{b.Pod1.Addr(f), b.Pod2.Addr(f), b.RemotePod.Addr(f), b.Remote.Addr(f), b.Node.Addr(f), AltNodeAddr(f)} {
			result := Result{Outcome: Dropped}
			for started := time.Now(); result.Outcome != Connected; {
				if ctx.Err() != nil || time.Since(started) > readyTimeout {
					return fmt.Errorf("the client cannot reach %s: %s", to, result)
				}
				result = b.Client.Dial(Probe{To: netip.AddrPortFrom(to, Ports[0]), Timeout: DropTimeout})
			}
		}
	}
	return nil
}

// add makes a namespace with the sysctls that must be set before it has interfaces.
func (b *Topology) add(ctx context.Context, h host) (*Namespace, error) {
	n := &Namespace{host: h, name: b.id + "-" + h.name}
	if err := ip(ctx, nil, "netns", "add", n.name); err != nil {
		return nil, err
	}
	var err error
	if n.handle, err = unix.Open(filepath.Join(folder, n.name), unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
		return nil, fmt.Errorf("opening the network namespace %s: %w", n.name, err)
	}
	if err := n.Sysctl(sysctls); err != nil {
		return nil, err
	}
	if h.name == "node" || h.name == "remote" {
		err = n.Sysctl(forwarding)
	}
	return n, err
}

// Sysctl sets sysctls of the namespace, by their paths below /proc/sys. One that the kernel does not have is left out.
func (n *Namespace) Sysctl(values map[string]string) error {
	return n.Do(func() error {
		for path, value := range values {
			err := os.WriteFile(filepath.Join("/proc/sys", path), []byte(value), 0o644)
			if err != nil && !errors.Is(err, os.ErrNotExist) {
				return fmt.Errorf("setting the sysctl %s of %s: %w", path, n.Host(), err)
			}
		}
		return nil
	})
}

// connect creates the veth pairs and configures their ends.
func (b *Topology) connect(ctx context.Context) error {
	var commands bytes.Buffer
	for _, l := range links {
		fmt.Fprintf(&commands, "link add %s netns %s-%s type veth peer name %s netns %s-%s\n", l.ifA, b.id, l.a, l.ifB, b.id, l.b)
	}
	if err := ip(ctx, &commands, "-batch", "-"); err != nil {
		return err
	}
	for _, h := range hosts {
		lines := strings.NewReader(strings.Join(script(h.name), "\n") + "\n")
		if err := ip(ctx, lines, "-n", b.id+"-"+h.name, "-batch", "-"); err != nil {
			return err
		}
	}
	return nil
}

func (b *Topology) serve() error {
	for _, n := range []*Namespace{b.Node, b.Remote, b.Pod1, b.Pod2, b.RemotePod} {
		for _, port := range Ports {
			for _, protocol := range model.Protocols {
				if _, err := n.Serve(protocol, port); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// Namespaces are all of them.
func (b *Topology) Namespaces() []*Namespace {
	return []*Namespace{b.Node, b.Remote, b.Client, b.Pod1, b.Pod2, b.RemotePod}
}

// Close removes the namespaces. Programs that still run in one of them must be ended by who started them.
func (b *Topology) Close() error {
	var errs []error
	for _, n := range b.Namespaces() {
		if n != nil {
			errs = append(errs, n.close())
		}
	}
	paths, err := filepath.Glob(filepath.Join(folder, b.id+"-*"))
	errs = append(errs, err)
	for _, path := range paths {
		errs = append(errs, removeNamespace(path))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("removing a network: %w", err)
	}
	return nil
}

// sweep removes the namespaces of processes that are no more. It complains about nothing: another process may do the same.
func sweep() {
	paths, _ := filepath.Glob(filepath.Join(folder, prefix+"*"))
	for _, path := range paths {
		id, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(path), prefix), "-")
		if pid, err := strconv.Atoi(id); err == nil && !alive(pid) {
			_ = removeNamespace(path)
			_ = os.Remove((&Namespace{name: filepath.Base(path)}).LockFile())
		}
	}
}

func alive(pid int) bool {
	_, err := os.Stat(fmt.Sprintf("/proc/%d", pid))
	return err == nil
}

// removeNamespace does what "ip netns del" does. The namespace itself goes with its last process and socket.
func removeNamespace(path string) error {
	if err := unix.Unmount(path, unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("unmounting %s: %w", path, err)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// ip runs the program of that name.
func ip(ctx context.Context, stdin io.Reader, args ...string) error {
	cmd := exec.CommandContext(ctx, "ip", args...)
	cmd.Stdin = stdin
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("running ip %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}
