package renumber

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/test/bench/cluster"
	"github.com/clusterip-operator/clusterip-operator/test/bench/load"
	"github.com/clusterip-operator/clusterip-operator/test/bench/proxy/probe"
	"github.com/clusterip-operator/clusterip-operator/test/bench/stats"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/network"
)

// modes are those of the agent.
var modes = []string{"nft", "nftables"}

// Agent is what one agent serves both addresses of all Services with.
type Agent struct {
	Mode string
	// Old and New are microseconds of new connections to the addresses of each kind.
	Old, New stats.Sample
	// Without and With are its memory, in bytes, with none and with Options.Kept former addresses.
	Without, With int64
}

const (
	node = "node-1"
	// target is the port of the server.
	target = 9000
)

// agents measures an agent in each mode.
func (b *bench) agents(ctx context.Context) (all []Agent, err error) {
	if err := b.giveEndpoints(ctx); err != nil {
		return nil, err
	}
	if _, err := b.Client.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}, metav1.CreateOptions{}); err != nil {
		return nil, fmt.Errorf("creating the Node: %w", err)
	}
	for _, mode := range modes {
		all = append(all, Agent{Mode: mode})
	}
	for i := range all {
		if all[i].Without, err = b.memory(ctx, all[i].Mode); err != nil {
			return nil, err
		}
	}
	if _, err := b.renumber(ctx, "run", "--wait=false"); err != nil {
		return nil, err
	}
	for i := range all {
		if err := b.latency(ctx, &all[i]); err != nil {
			return nil, err
		}
	}
	if err := b.keep(ctx); err != nil {
		return nil, err
	}
	for i := range all {
		if all[i].With, err = b.memory(ctx, all[i].Mode); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// giveEndpoints has the server be the only endpoint of every Service.
func (b *bench) giveEndpoints(ctx context.Context) error {
	net, err := network.New(ctx)
	if err != nil {
		return err
	}
	address := net.Pod1.Addr(model.IPv4).String()
	if err := net.Close(); err != nil {
		return err
	}
	slices := b.Client.DiscoveryV1().EndpointSlices(cluster.Namespace)
	_, err = load.Load{Workers: 8, Count: b.Services}.Run(ctx, func(ctx context.Context, i int) error {
		_, err := slices.Create(ctx, &discoveryv1.EndpointSlice{
			ObjectMeta:  metav1.ObjectMeta{Name: nameOf(i), Labels: map[string]string{discoveryv1.LabelServiceName: nameOf(i)}},
			AddressType: discoveryv1.AddressTypeIPv4,
			Ports:       []discoveryv1.EndpointPort{{Name: new(""), Port: new(int32(target))}},
			Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{address}}},
		}, metav1.CreateOptions{})
		return err
	})
	if err != nil {
		return fmt.Errorf("creating EndpointSlices: %w", err)
	}
	return nil
}

// with starts an agent in a network of its own, and calls use when it serves everything.
func (b *bench) with(ctx context.Context, mode string, use func(*network.Topology, *framework.ProxyAgent) error) (err error) {
	net, err := network.New(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, net.Close()) }()
	agent, err := b.StartProxyAgent(ctx, framework.ProxyAgentOptions{Namespace: net.Node, Node: node, Mode: mode})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, agent.Kill()) }()
	return use(net, agent)
}

// quiet is how long an agent is left alone before its memory is read.
const quiet = 15 * time.Second

// memory is what an agent occupies a while after its start.
func (b *bench) memory(ctx context.Context, mode string) (bytes int64, err error) {
	b.log.Step("memory of the agent, %s", mode)
	err = b.with(ctx, mode, func(_ *network.Topology, agent *framework.ProxyAgent) (err error) {
		time.Sleep(quiet)
		bytes, err = agent.RSS()
		return err
	})
	return bytes, err
}

// latency measures connections to the old and the new addresses, by turns.
func (b *bench) latency(ctx context.Context, a *Agent) error {
	old, renewed, err := b.addresses(ctx)
	if err != nil {
		return err
	}
	return b.with(ctx, a.Mode, func(net *network.Topology, _ *framework.ProxyAgent) (err error) {
		b.log.Step("connections through the agent, %s", a.Mode)
		server, err := probe.Serve(net.Pod1, netip.AddrPortFrom(netip.IPv4Unspecified(), target))
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, server.Close()) }()
		client, err := probe.NewClient(net.Pod2)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, client.Close()) }()
		const turns = 10
		for range turns {
			for _, one := range []struct {
				sample  *stats.Sample
				targets []netip.AddrPort
			}{{&a.Old, old}, {&a.New, renewed}} {
				times, err := client.Count(b.Connections/turns, one.targets...)
				if err != nil {
					return err
				}
				if times.Failed > 0 {
					return fmt.Errorf("%d connections failed, the last one to %s", times.Failed, times.Failure)
				}
				*one.sample = append(*one.sample, times.Took...)
			}
		}
		return nil
	})
}

// addresses are those that the Services had, and those that they have.
func (b *bench) addresses(ctx context.Context) (old, renewed []netip.AddrPort, err error) {
	all, err := b.Client.CoreV1().Services(cluster.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, nil, fmt.Errorf("listing the Services: %w", err)
	}
	for _, s := range all.Items {
		for text, to := range map[string]*[]netip.AddrPort{s.Annotations[v1alpha1.AnnotationFormerIPs]: &old, s.Spec.ClusterIP: &renewed} {
			a, err := netip.ParseAddr(strings.TrimSpace(text))
			if err != nil {
				return nil, nil, fmt.Errorf("reading the addresses of Service %s: %w", s.Name, err)
			}
			*to = append(*to, netip.AddrPortFrom(a, 80))
		}
	}
	return old, renewed, nil
}

// keep adds kept IPAddresses, the same number for each Service, until there are as many as wanted.
func (b *bench) keep(ctx context.Context) error {
	b.log.Step("keeping %d addresses", b.Kept)
	first := netip.MustParsePrefix(newRange).Addr().As4()
	_, err := load.Load{Workers: 8, Count: b.Kept - b.Services}.Run(ctx, func(ctx context.Context, i int) error {
		address := netip.AddrFrom4([4]byte{first[0], first[1] + 1, byte(i >> 8), byte(i)}) // Services were moved to the first half
		ip := framework.NewIPAddress(address.String(), cluster.Namespace, nameOf(i%b.Services), framework.ManagedBy(v1alpha1.ManagedByOperator),
			framework.WithIPLabel(v1alpha1.LabelPurpose, v1alpha1.PurposeAdditional), func(ip *networkingv1.IPAddress) { ip.Finalizers = []string{v1alpha1.FinalizerFormer} })
		_, err := b.Networking().IPAddresses().Create(ctx, ip, metav1.CreateOptions{})
		return err
	})
	if err != nil {
		return fmt.Errorf("creating IPAddresses: %w", err)
	}
	return nil
}
