package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/network"
)

// Options say what cluster to start. The zero Options are two nodes without anything on them.
type Options struct {
	// Nodes is how many there are, 2 if it is 0.
	Nodes int
	// Version is that of control plane and nodes, V137 if it is zero. Fetch must have built it.
	Version framework.Version
	// Images that every node has at first, by names in hack/images.sh. Fetch must have made them.
	Images []string
}

// Cluster is a control plane with nodes without Service proxy and DNS, which callers deploy.
type Cluster struct {
	*framework.ControlPlane
	Nodes []*Node
	// gateway is the default gateway of the nodes, open are the networks of all nodes but the first.
	gateway network.Netns
	open    []network.Netns
}

// serviceAddresses are those of the Service kubernetes, at which pods reach the API server.
var serviceAddresses = []netip.Addr{netip.MustParseAddr("10.96.0.1"), netip.MustParseAddr("fd00:10:96::1")}

// Start starts a cluster in this process's network namespace, its own, and waits for ready nodes.
func Start(ctx context.Context, o Options) (*Cluster, error) {
	if o.Nodes == 0 {
		o.Nodes = 2
	}
	programs, err := findPrograms(ctx, o.Version)
	if err != nil {
		return nil, err
	}
	c := &Cluster{}
	if err := c.start(ctx, o, programs); err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	return c, nil
}

func (c *Cluster) start(ctx context.Context, o Options, p programs) (err error) {
	if c.open, c.gateway, err = connect(ctx, o.Nodes); err != nil {
		return err
	}
	if c.ControlPlane, err = framework.Start(ctx, controlPlane(o.Version)); err != nil {
		return err
	}
	if err := c.startControllers(ctx, p); err != nil {
		return err
	}
	networks := append([]network.Netns{{}}, c.open...)
	for i := 1; i <= o.Nodes; i++ {
		n, err := c.addNode(ctx, i, networks[i-1], p)
		if err != nil {
			return err
		}
		c.Nodes = append(c.Nodes, n)
	}
	for _, n := range c.Nodes {
		if err := n.importImages(ctx, append(o.Images, pause)...); err != nil {
			return err
		}
	}
	return c.waitReady(ctx)
}

// controlPlane is one on the first node.
func controlPlane(version framework.Version) framework.Options {
	first := nodeAddresses(1)
	return framework.Options{Version: version, Addresses: append(first[:], serviceAddresses...)}
}

// Upgrade restarts the API server as another version; nodes and controllers stay as they are. The
// old one is killed: it would wait half a minute for connections of kubelets.
func (c *Cluster) Upgrade(ctx context.Context, version framework.Version) error {
	if err := c.API.Kill(); err != nil {
		return err
	}
	return c.Restart(ctx, controlPlane(version))
}

// waitReady waits until all nodes say that they are ready, two minutes if ctx has no deadline.
func (c *Cluster) waitReady(ctx context.Context) error {
	within := 2 * time.Minute
	if deadline, ok := ctx.Deadline(); ok {
		within = time.Until(deadline)
	}
	if _, err := framework.Kubectl(ctx, c.Kubeconfig(), "wait", "node", "--all", "--for=condition=Ready", fmt.Sprint("--timeout=", within)); err != nil {
		return fmt.Errorf("waiting for the nodes to be ready: %w; their logs are in %s", err, c.Dir())
	}
	return nil
}

// Stop ends nodes and control plane, and closes the networks. What the first node, as an agent,
// leaves in this process's network namespace stays as long as the process.
func (c *Cluster) Stop() error {
	var errs []error
	for _, n := range c.Nodes {
		errs = append(errs, n.Stop())
	}
	if c.ControlPlane != nil {
		errs = append(errs, c.ControlPlane.Stop())
	}
	if !c.gateway.IsZero() { // otherwise it was not connected
		errs = append(errs, disconnect(append(c.open, c.gateway)))
	}
	return errors.Join(errs...)
}

// write writes a file below the folder of the cluster, with its folders.
func write(path, text string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(text), 0o600)
}
