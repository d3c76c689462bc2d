package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/network"
)

// Node is one node of a cluster. Its methods may be called one after the other.
type Node struct {
	*framework.Process
	// Name is that of the Node object, and the host name.
	Name string
	// Addresses are the node's own, IPv4 first.
	Addresses [2]netip.Addr

	index   int // from 1
	program string
	dir     string
	env     []string
}

// addNode starts the i-th node, from 1, in a network namespace; the zero Netns is this process's.
func (c *Cluster) addNode(ctx context.Context, i int, netns network.Netns, p programs) (*Node, error) {
	n := &Node{Name: fmt.Sprintf("node-%d", i), Addresses: nodeAddresses(i), index: i, program: p.node}
	n.dir = filepath.Join(c.Dir(), n.Name)
	n.env = []string{"PATH=" + p.path(), fmt.Sprintf("NODE_IPS=%s,%s", n.Addresses[0], n.Addresses[1])}
	if err := n.writeFiles(c, i, p); err != nil {
		return nil, err
	}
	if err := c.register(ctx, n.Name, i); err != nil {
		return nil, err
	}
	return n, c.boot(ctx, n, netns)
}

// boot starts a node, and returns when its containerd answers.
func (c *Cluster) boot(ctx context.Context, n *Node, netns network.Netns) (err error) {
	args := []string{"-name=" + n.Name, "-dir=" + n.dir}
	if !netns.IsZero() {
		args = append(args, "-network="+netns.Path())
	}
	n.Process, err = c.StartProgram(ctx, framework.Program{
		Name: n.Name, Path: n.program, Args: args, Env: n.env,
		Ready: func(ctx context.Context) error { _, err := n.Run(ctx, "ctr", "version"); return err },
	})
	return err
}

// Reboot gives a node new namespaces: only what a machine keeps on its disk stays. It is not for
// the first node, whose network is this process's.
func (c *Cluster) Reboot(ctx context.Context, n *Node) error {
	if n.index == 1 {
		return fmt.Errorf("rebooting %s: the control plane is in its network", n.Name)
	}
	at := n.index - 2
	if err := errors.Join(n.Stop(), c.open[at].Close()); err != nil {
		return fmt.Errorf("rebooting %s: %w", n.Name, err)
	}
	netns, err := attachNode(ctx, n.index, len(c.Nodes))
	if err != nil {
		return fmt.Errorf("rebooting %s: %w", n.Name, err)
	}
	c.open[at] = netns
	return c.boot(ctx, n, netns)
}

// register creates the i-th node's Node, in one of three zones, with controller-manager's ranges.
func (c *Cluster) register(ctx context.Context, name string, i int) error {
	ranges := podRanges(i)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: name, Labels: map[string]string{corev1.LabelHostname: name, corev1.LabelOSStable: "linux", corev1.LabelTopologyZone: fmt.Sprintf("zone-%d", (i-1)%3+1)},
	}}
	node.Spec.PodCIDR, node.Spec.PodCIDRs = ranges[0].String(), []string{ranges[0].String(), ranges[1].String()}
	if _, err := c.Client().CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating the Node %s: %w", name, err)
	}
	return nil
}

// Command returns a program that will run in all namespaces of the node.
func (n *Node) Command(ctx context.Context, program string, args ...string) *exec.Cmd {
	one, _ := os.ReadFile(filepath.Join(n.dir, "pid")) // without it nsenter complains
	cmd := exec.CommandContext(ctx, "nsenter", append([]string{"--target=" + string(one), "--all", "--", "env", n.env[0], program}, args...)...)
	return cmd
}

// Run runs a program on the node and returns its stdout. The error holds what it wrote to stderr.
func (n *Node) Run(ctx context.Context, program string, args ...string) (string, error) {
	var complaint strings.Builder
	cmd := n.Command(ctx, program, args...)
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil {
		return string(out), fmt.Errorf("running %s %s on %s: %w: %s", program, strings.Join(args, " "), n.Name, err, strings.TrimSpace(complaint.String()))
	}
	return string(out), nil
}

func (n *Node) importImages(ctx context.Context, names ...string) error {
	for _, name := range names {
		if _, err := n.Run(ctx, "ctr", "--namespace=k8s.io", "images", "import", filepath.Join(Images(), name+".tar")); err != nil {
			return err
		}
	}
	return nil
}
