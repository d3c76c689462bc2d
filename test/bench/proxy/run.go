package proxy

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/test/bench/cluster"
	"github.com/clusterip-operator/clusterip-operator/test/bench/progress"
	"github.com/clusterip-operator/clusterip-operator/test/bench/proxy/population"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/network"
)

// node is the Node on which every proxy believes to be. It has one in a hundred endpoints.
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
	for _, p := range o.plans() {
		b := &bench{Options: o, contenders: contenders, log: log, family: p.family, result: &result}
		if err := b.run(ctx, p); err != nil {
			return result, err
		}
	}
	return result, nil
}

// bench measures in one control plane.
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

// run makes the control plane and measures in it at each of its sizes.
func (b *bench) run(ctx context.Context, p plan) (err error) {
	options := framework.Options{ServiceClusterIPRange: serviceRange(b.family).String()}
	if p.mixed && b.family == model.IPv6 {
		options.ServiceClusterIPRange = netip.PrefixFrom(serviceRange(b.family).Addr(), 112).String()
	}
	if err := b.open(ctx, options); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.plane.Stop()) }()
	if err := b.settle(ctx, p); err != nil {
		return err
	}
	for _, n := range p.sizes {
		if err := b.measure(ctx, Shape{b.family, n, p.endpoints, p.mixed}); err != nil {
			return fmt.Errorf("measuring with %d Services: %w", n, err)
		}
		b.sticky = netip.AddrPort{} // once is enough
	}
	return nil
}

// open starts the control plane.
func (b *bench) open(ctx context.Context, o framework.Options) (err error) {
	b.log.Step("starting etcd and kube-apiserver for %s", b.family)
	if b.plane, err = cluster.Open(ctx, o, b.log); err != nil {
		return err
	}
	if b.result.Versions, err = versions(ctx, b.plane); err != nil {
		return errors.Join(err, b.plane.Stop())
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
func (b *bench) settle(ctx context.Context, p plan) (err error) {
	if err := b.createNode(ctx); err != nil {
		return err
	}
	template := serviceRange(p.family).Addr().Next() // that is the API server's own
	if err := b.plane.CreateTemplate(ctx, template.Next().String()); err != nil {
		return err
	}
	b.people = population.New(b.plane.Client, p.family, p.endpoints)
	if p.mixed {
		return b.addRange(ctx)
	}
	if b.Sticky {
		return b.people.StickTemplate(ctx)
	}
	if p.sticky {
		b.sticky, err = b.people.AddSticky(ctx, stickyEndpoints()...)
	}
	return err
}

// addRange adds a mixed population's second ServiceCIDR: a large one, sparsely used with IPv6.
func (b *bench) addRange(ctx context.Context) error {
	second := netip.MustParsePrefix("172.28.0.0/16")
	if b.family == model.IPv6 {
		second = netip.MustParsePrefix("fd00:97::/64")
		b.people.Sparse(second)
	} else {
		b.plane.Second = second
	}
	cidr := &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: "second"}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{second.String()}}}
	if _, err := b.plane.Client.NetworkingV1().ServiceCIDRs().Create(ctx, cidr, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating the second ServiceCIDR: %w", err)
	}
	return nil
}

// createNode creates the Node of the proxies, which is never there but has addresses.
func (b *bench) createNode(ctx context.Context) error {
	nodes := b.plane.Client.CoreV1().Nodes()
	n, err := nodes.Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("creating the Node: %w", err)
	}
	net, err := network.New(ctx)
	if err != nil {
		return err
	}
	for _, f := range network.Families {
		n.Status.Addresses = append(n.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: net.Node.Addr(f).String()})
	}
	if _, err = nodes.UpdateStatus(ctx, n, metav1.UpdateOptions{}); err != nil {
		err = fmt.Errorf("writing the addresses of the Node: %w", err)
	}
	return errors.Join(err, net.Close())
}

// grow makes Services until there are n: with IPv4 by writing to etcd, which is much faster.
func (b *bench) grow(ctx context.Context, n int) error {
	if b.family == model.IPv6 {
		return b.people.Create(ctx, n)
	}
	if err := b.plane.Grow(ctx, n); err != nil {
		return err
	}
	return b.people.Adopt(ctx)
}

// measure makes all measurements at one size.
func (b *bench) measure(ctx context.Context, shape Shape) error {
	b.log.Step("%s: creating Services and EndpointSlices", shape)
	if err := b.grow(ctx, shape.Services); err != nil {
		return err
	}
	if shape.Mixed {
		if err := b.people.Mix(ctx); err != nil {
			return err
		}
	}
	return b.compare(ctx, shape)
}

// compare measures with the Services that there are.
func (b *bench) compare(ctx context.Context, shape Shape) (err error) {
	if err := b.plane.Settle(ctx, time.Minute); err != nil {
		return err
	}
	c := Case{Shape: shape, Figures: map[string]*Figures{}}
	nodes, err := b.start(ctx, &c)
	defer func() { err = errors.Join(err, closeAll(nodes)) }()
	if err != nil {
		return err
	}
	for _, step := range []func(context.Context, *Case, []*testNode) error{b.connections, b.quiet, b.busy} {
		if err := step(ctx, &c, nodes); err != nil {
			return err
		}
	}
	b.result.Cases = append(b.result.Cases, c)
	return nil
}

// start starts and measures one proxy after the other, and returns those that succeeded, paused.
func (b *bench) start(ctx context.Context, c *Case) (nodes []*testNode, err error) {
	for _, who := range b.contenders {
		f := &Figures{}
		c.Figures[who.Key] = f
		if n := c.Shape.Services; who.Most > 0 && n > who.Most {
			f.Absent = "left out"
			continue
		}
		s, err := b.newNode(ctx, who, f)
		if err != nil {
			return nodes, err
		}
		nodes = append(nodes, s)
		if err := b.alone(ctx, c.Shape, s); err != nil {
			return nodes, err
		}
		if f.Late > 0 {
			nodes = nodes[:len(nodes)-1]
			if err := errors.Join(s.killAll(), s.close()); err != nil {
				return nodes, err
			}
		}
	}
	return nodes, nil
}

// alone is what one proxy does while all other proxies are paused or not there yet.
func (b *bench) alone(ctx context.Context, shape Shape, s *testNode) error {
	for _, step := range []func(context.Context, *testNode) error{
		b.cold, b.translation, b.restart, b.changes, b.affinity, b.leave, b.compareAll, b.footprint, b.memory,
	} {
		if err := step(ctx, s); err != nil || s.Late > 0 {
			return err
		}
	}
	b.log.Step("%s: %s: %s", shape, s.who.Name, s.Figures)
	return s.proxy.Pause()
}

func closeAll(nodes []*testNode) error {
	var errs []error
	for _, s := range nodes {
		errs = append(errs, s.close())
	}
	return errors.Join(errs...)
}
