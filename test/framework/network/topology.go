package network

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// readyTimeout is how long a new Topology may take until packets flow.
const readyTimeout = 20 * time.Second

// Ports are those on which every pod and node of a new Topology serves, with every protocol.
var Ports = []uint16{8080, 8081, 8082}

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

	cgroup Cgroup       // of the node, the zero one without
	leave  func() error // the cgroup of this process
}

// New makes a Topology with servers on [Ports] except in Client, as root. An error leaves nothing.
func New(ctx context.Context) (*Topology, error) {
	b := &Topology{}
	if err := b.build(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("making a network: %w", err), b.Close())
	}
	return b, nil
}

// Lend makes a Topology that ends with a test.
func Lend(t testing.TB) *Topology {
	t.Helper()
	b, err := New(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

func (b *Topology) build(ctx context.Context) error {
	targets := []**Namespace{&b.Node, &b.Remote, &b.Client, &b.Pod1, &b.Pod2, &b.RemotePod} // as in hosts
	for i, target := range targets {
		n, err := newNamespace(hosts[i])
		if err != nil {
			return err
		}
		*target = n
	}
	if err := errors.Join(b.Node.Sysctl(forwarding), b.Remote.Sysctl(forwarding)); err != nil {
		return err
	}
	if err := b.connect(ctx); err != nil {
		return err
	}
	if err := b.serve(); err != nil {
		return err
	}
	return b.awaitReady(ctx)
}

// awaitReady waits until every link carries packets and neighbours are resolved: both take a moment
// after the interfaces are up, on a busy machine up to a second.
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

// connect creates the veth pairs and configures their ends.
func (b *Topology) connect(ctx context.Context) error {
	byHost := map[string]*Namespace{}
	for _, n := range b.Namespaces() {
		byHost[n.Host()] = n
	}
	var lines []string
	for _, l := range links {
		lines = append(lines, fmt.Sprintf("link add %s netns %s type veth peer name %s netns %s", l.ifA, byHost[l.a].Path(), l.ifB, byHost[l.b].Path()))
	}
	if err := (Netns{}).IP(ctx, lines...); err != nil {
		return err
	}
	for _, n := range b.Namespaces() {
		if err := n.IP(ctx, script(n.Host())...); err != nil {
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

// Close closes the namespaces. A caller must end its programs there, which keep them alive.
func (b *Topology) Close() error {
	errs := []error{b.closeCgroups()}
	for _, n := range b.Namespaces() {
		if n != nil {
			errs = append(errs, n.Close())
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("removing a network: %w", err)
	}
	return nil
}
