//go:build linux

package flowtest

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/network"
)

// Zone is the zone of every Environment's Node.
const Zone = "zone-a"

// Cluster is a control plane for any number of Environments. Its zero value has none: see [StartCluster].
type Cluster struct {
	*framework.ControlPlane

	environments atomic.Int64
	virtual      atomic.Int64
}

// StartCluster starts a control plane. Services get node ports from all of the default range.
func StartCluster(ctx context.Context, options framework.Options) (*Cluster, error) {
	c, err := framework.Start(ctx, options)
	if err != nil {
		return nil, err
	}
	return &Cluster{ControlPlane: c}, nil
}

// VirtualAddr returns an address that no Service has got from this Cluster yet, for load balancers and external IPs.
func (p *Cluster) VirtualAddr(f model.Family) netip.Addr {
	return network.VirtualAddr(f, int(p.virtual.Add(1)))
}

// Options say which proxy to run in a Environment, and how.
type Options struct {
	Kind Kind
	// Config replaces and completes fields of the KubeProxyConfiguration, which ours reads, too.
	Config map[string]any
	// Args are further flags of our proxy.
	Args []string
	// NoZone leaves the Node without a zone.
	NoZone bool
}

// Proxy is what a Environment knows of its proxy.
type Proxy interface {
	Start(ctx context.Context) error
	Stop() error
	Kill() error
	LogTail(lines int) string
	Healthy(ctx context.Context, path string) error
	Get(ctx context.Context, path string) (string, error)
	Metrics(ctx context.Context) (framework.Metrics, error)
}

// Environment is a network with a proxy in it.
type Environment struct {
	*network.Topology
	Cluster *Cluster
	Kind    Kind
	Proxy   Proxy
	// NodeName and RemoteName are the names of the two nodes, Namespace is where its Services are.
	NodeName, RemoteName, Namespace string
}

// Start makes the network, the Node and the namespace, and starts the proxy. What it made is gone after an error.
func (p *Cluster) Start(ctx context.Context, options Options) (*Environment, error) {
	n := p.environments.Add(1)
	w := &Environment{
		Cluster: p, Kind: options.Kind,
		NodeName: fmt.Sprintf("node-%d", n), RemoteName: fmt.Sprintf("remote-%d", n), Namespace: fmt.Sprintf("env-%d", n),
	}
	var err error
	if w.Topology, err = network.New(ctx); err != nil {
		return nil, err
	}
	if err := w.populate(ctx, options); err != nil {
		return nil, errors.Join(fmt.Errorf("starting an environment with %s: %w", options.Kind, err), w.Stop())
	}
	return w, nil
}

func (w *Environment) populate(ctx context.Context, options Options) error {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.Namespace}}
	if _, err := w.Cluster.Client().CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil {
		return err
	}
	if err := w.createNode(ctx, options); err != nil {
		return err
	}
	return w.startProxy(ctx, options)
}

func (w *Environment) createNode(ctx context.Context, options Options) error {
	nodes := w.Cluster.Client().CoreV1().Nodes()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: w.NodeName}}
	if !options.NoZone {
		node.Labels = map[string]string{corev1.LabelTopologyZone: Zone}
	}
	for _, f := range network.Families {
		node.Spec.PodCIDRs = append(node.Spec.PodCIDRs, network.PodCIDR(f).String())
	}
	node.Spec.PodCIDR = node.Spec.PodCIDRs[0]
	node, err := nodes.Create(ctx, node, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	for _, f := range network.Families {
		node.Status.Addresses = append(node.Status.Addresses,
			corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: w.Node.Addr(f).String()})
	}
	_, err = nodes.UpdateStatus(ctx, node, metav1.UpdateOptions{})
	return err
}

func (w *Environment) startProxy(ctx context.Context, options Options) (err error) {
	switch w.Kind {
	case OursNFT, OursLegacy:
		mode := map[Kind]string{OursNFT: "nft", OursLegacy: "legacy"}[w.Kind]
		w.Proxy, err = w.Cluster.StartProxyAgent(ctx, framework.ProxyAgentOptions{
			Namespace: w.Node, Node: w.NodeName, Mode: mode, Config: options.Config, Args: options.Args})
	case KubeProxyIPTables, KubeProxyNFTables:
		mode := map[Kind]string{KubeProxyIPTables: "iptables", KubeProxyNFTables: "nftables"}[w.Kind]
		w.Proxy, err = w.Cluster.StartKubeProxy(ctx, framework.KubeProxyOptions{
			Namespace: w.Node, Node: w.NodeName, Mode: mode, Config: options.Config})
	default:
		err = fmt.Errorf("%q is no proxy", w.Kind)
	}
	if err != nil {
		w.Proxy = nil // and no nil pointer in an interface
	}
	return err
}

// Stop stops the proxy, deletes the Services and the Node, and removes the network.
func (w *Environment) Stop() error {
	ctx := context.Background() // what was made is taken away, also after the end of a test's context
	var errs []error
	if w.Proxy != nil {
		errs = append(errs, w.Proxy.Stop())
	}
	errs = append(errs, w.DeleteAll(ctx), w.Cluster.Client().CoreV1().Nodes().Delete(ctx, w.NodeName, metav1.DeleteOptions{}), w.Close())
	return errors.Join(errs...)
}
