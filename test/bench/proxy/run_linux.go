package proxy

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/test/bench/cluster"
	"github.com/clusterip-operator/clusterip-operator/test/bench/progress"
	"github.com/clusterip-operator/clusterip-operator/test/bench/proxy/population"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/network"
)

// node is the name of the Node on which every proxy believes to be. One in a hundred endpoints is there.
const node = "node-1"

// Run measures everything. It needs root.
func Run(ctx context.Context, o Options, log *progress.Log) (result Result, err error) {
	if os.Geteuid() != 0 {
		return result, errors.New("this makes network namespaces and needs root")
	}
	contenders, err := pick(o.Proxies)
	if err != nil {
		return result, err
	}
	result.Options = o
	for _, w := range o.worlds() {
		b := &bench{Options: o, contenders: contenders, log: log, family: w.family, result: &result}
		if err := b.run(ctx, w); err != nil {
			return result, err
		}
	}
	return result, nil
}

// bench measures in one world.
type bench struct {
	Options
	contenders []Contender
	log        *progress.Log
	family     model.Family
	result     *Result

	plane  *cluster.Cluster
	people *population.Population
	sticky netip.AddrPort // the Service with affinity, as long as that is to be measured
}

// run makes the world and measures in it at each of its sizes.
func (b *bench) run(ctx context.Context, w world) (err error) {
	b.log.Step("starting etcd and kube-apiserver for %s", b.family)
	options := framework.Options{ServiceClusterIPRange: serviceRange(b.family).String()}
	if b.plane, err = cluster.Open(ctx, options, b.log); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.plane.Stop()) }()
	if b.result.Versions, err = versions(ctx, b.plane); err != nil {
		return err
	}
	if err := b.settle(ctx, w); err != nil {
		return err
	}
	for _, n := range w.sizes {
		if err := b.measure(ctx, Shape{b.family, n, w.endpoints}); err != nil {
			return fmt.Errorf("measuring with %d Services: %w", n, err)
		}
		b.sticky = netip.AddrPort{} // once is enough
	}
	return nil
}

// serviceRange is as large as the API server accepts.
func serviceRange(f model.Family) netip.Prefix {
	if f == model.IPv6 {
		return netip.MustParsePrefix("fd00:96::/108")
	}
	return cluster.Range
}

// settle creates what does not grow.
func (b *bench) settle(ctx context.Context, w world) (err error) {
	if err := b.createNode(ctx); err != nil {
		return err
	}
	template := serviceRange(w.family).Addr().Next() // that is the API server's own
	if err := b.plane.CreateTemplate(ctx, template.Next().String()); err != nil {
		return err
	}
	if b.people = population.New(b.plane.Client, w.family, w.endpoints); !w.sticky {
		return nil
	}
	b.sticky, err = b.people.AddSticky(ctx, stickyEndpoints(w.family)...)
	return err
}

// createNode creates the Node of the proxies, which is never there but has addresses.
func (b *bench) createNode(ctx context.Context) error {
	nodes := b.plane.Client.CoreV1().Nodes()
	n, err := nodes.Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("creating the Node: %w", err)
	}
	bed, err := network.New(ctx)
	if err != nil {
		return err
	}
	for _, f := range network.Families {
		n.Status.Addresses = append(n.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: bed.Node.Addr(f).String()})
	}
	if _, err := nodes.UpdateStatus(ctx, n, metav1.UpdateOptions{}); err != nil {
		return errors.Join(fmt.Errorf("writing the addresses of the Node: %w", err), bed.Close())
	}
	return bed.Close()
}

// grow makes Services until there are n. Written straight to etcd they are there much sooner, which the cluster can do with IPv4.
func (b *bench) grow(ctx context.Context, n int) error {
	if b.family == model.IPv6 {
		return b.people.Create(ctx, n)
	}
	if err := b.plane.Grow(ctx, n); err != nil {
		return err
	}
	return b.people.Adopt(ctx)
}
