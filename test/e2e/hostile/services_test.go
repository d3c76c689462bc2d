package hostile_test

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/test/e2e/internal/environment"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/network"
)

// tenants are those parties that write Services alone.
func tenants(env *fixture) []party {
	t := tenant{env}
	return []party{t.crowd(), t.broad(), t.choosy(), t.scribbler(), t.claimant(), t.sticky()}
}

// crowd has as many endpoints as a cluster has pods.
func (t tenant) crowd() party {
	const parts = 10
	var service *corev1.Service
	return party{
		what: "a tenant with 10,000 endpoints, of which one goes and comes again", every: 200 * time.Millisecond, leave: t.leave,
		enter: func(ctx context.Context) (err error) {
			if service, err = t.create(ctx, "crowd", framework.WithType(corev1.ServiceTypeNodePort)); err != nil {
				return err
			}
			for part := range parts {
				if err := t.endpoints(ctx, service, part, perSlice); err != nil {
					return err
				}
			}
			return nil
		},
		act: func(ctx context.Context, i int) error { return t.endpoints(ctx, service, i/2%parts, perSlice-1+i%2) },
	}
}

// broad has 100 ports with 100 endpoints each, which are served at every kind of front.
func (t tenant) broad() party {
	const many = 100
	var service *corev1.Service
	return party{
		what: "a tenant with 100 ports of 100 endpoints each, at the node, at external IPs and at load balancers", every: 200 * time.Millisecond, leave: t.leave,
		enter: func(ctx context.Context) (err error) {
			service, err = t.create(ctx, "broad", framework.WithType(corev1.ServiceTypeLoadBalancer), func(s *corev1.Service) {
				template := s.Spec.Ports[0]
				s.Spec.Ports = nil
				for i := range int32(many) {
					port := template
					port.Name, port.Port = fmt.Sprintf("p-%d", i), 2000+i
					s.Spec.Ports = append(s.Spec.Ports, port)
				}
				for _, f := range network.Families {
					s.Spec.ExternalIPs = append(s.Spec.ExternalIPs, network.VirtualAddr(f, 300).String())
					s.Status.LoadBalancer.Ingress = append(s.Status.LoadBalancer.Ingress, environment.Ingress(network.VirtualAddr(f, 301).String())...)
				}
			})
			if err != nil {
				return err
			}
			return t.endpoints(ctx, service, 0, many)
		},
		act: func(ctx context.Context, i int) error { return t.endpoints(ctx, service, 0, many-1+i%2) },
	}
}

// choosy names each client that its load balancer serves.
func (t tenant) choosy() party {
	const many = 20_000
	ranges := make([]string, many)
	for i := range ranges { // of which no two make one
		ranges[i] = fmt.Sprintf("100.%d.%d.%d/32", 64+i>>15, i>>7&0xff, i<<1&0xff)
		if i%2 == 1 {
			ranges[i] = fmt.Sprintf("2001:db8:64:%x::/64", i<<1)
		}
	}
	return party{
		what: "a tenant with 20,000 loadBalancerSourceRanges, of which one changes", every: 300 * time.Millisecond, leave: t.leave,
		enter: func(ctx context.Context) error {
			service, err := t.create(ctx, "choosy", framework.WithType(corev1.ServiceTypeLoadBalancer), func(s *corev1.Service) {
				s.Spec.LoadBalancerSourceRanges = ranges
				for _, f := range network.Families {
					s.Status.LoadBalancer.Ingress = append(s.Status.LoadBalancer.Ingress, environment.Ingress(network.VirtualAddr(f, 302).String())...)
				}
			})
			if err != nil {
				return err
			}
			return t.endpoints(ctx, service, 0, 3)
		},
		act: func(ctx context.Context, i int) error {
			return t.update(ctx, "choosy", func(s *corev1.Service) {
				s.Spec.LoadBalancerSourceRanges = append(slices.Clone(ranges), fmt.Sprintf("203.0.%d.0/24", 100+i%100))
			})
		},
	}
}

// junk is a text for annotations that are no labels: long, and of what rules are made of.
var junk = strings.Repeat("x\" -j DROP\n-A INPUT -j DROP\nCOMMIT\n; } delete table ip nat $(reboot) \\\x00 9999999999999999999=,:-1", 100)

// annotations are all that the agent reads, with what they may hold at worst.
var annotations = map[string][]string{
	v1alpha1.AnnotationScheduler:           {junk, "lblcr", "wrr", "", "sh\x00"},
	v1alpha1.AnnotationKubeRouterScheduler: {"mh", junk, "rr"},
	v1alpha1.AnnotationEndpointWeights: {
		strings.TrimSuffix(strings.Repeat("topology.kubernetes.io/zone=a:100,", 64), ","), junk, "cores",
		strings.Repeat("a=b:1,", 10_000), "kubernetes.io/hostname=" + strings.Repeat("a", 63) + ":0",
	},
	v1alpha1.AnnotationRenumbering:                {junk, "{}"},
	corev1.AnnotationTopologyMode:                 {"Auto", junk},
	corev1.DeprecatedAnnotationTopologyAwareHints: {"Auto", junk}, // the API server wants both to be equal
	corev1.EndpointsLastChangeTriggerTime:         {junk, "9999-12-31T23:59:59.999999999Z"},
}

// scribbler writes what it likes into names and annotations, and exchanges that all the time.
func (t tenant) scribbler() party {
	const many = 20
	name := func(i int) string { return fmt.Sprintf("%s-%02d", strings.Repeat("n", 60), i) }
	annotate := func(i int) framework.ServiceOption {
		return func(s *corev1.Service) {
			for key, values := range annotations {
				metav1.SetMetaDataAnnotation(&s.ObjectMeta, key, values[i%len(values)])
			}
		}
	}
	return party{
		what: "a tenant with junk in every annotation that the agent reads, and names of 63 letters", every: 50 * time.Millisecond, leave: t.leave,
		enter: func(ctx context.Context) error {
			for i := range many {
				service, err := t.create(ctx, name(i), annotate(i), func(s *corev1.Service) {
					s.Spec.Ports[0].Name = strings.Repeat("p", 63)
				})
				if err != nil {
					return err
				}
				if err := t.endpoints(ctx, service, 0, 50); err != nil {
					return err
				}
			}
			return nil
		},
		act: func(ctx context.Context, i int) error { return t.update(ctx, name(i%many), annotate(i)) },
	}
}

// claimant asks for addresses that it was not given: those of the well-behaved Services, with their
// ports, those of the node and of a pod, and one of the ServiceCIDR that no Service has. A port of
// the node's own address is the tenant's then, as external IPs are meant, unless it is a node port.
func (t tenant) claimant() party {
	var service, moving *corev1.Service // read by the tenant: the spec writes its own one
	claim := func(s *corev1.Service) {
		s.Spec.ExternalIPs, s.Status.LoadBalancer.Ingress = nil, nil
		for _, f := range network.Families {
			unallocated := environment.VIP(t.env.steady, f).Addr().Prev()
			for _, a := range []string{
				environment.VIP(t.env.steady, f).Addr().String(), environment.VIP(moving, f).Addr().String(),
				t.env.Node.Addr(f).String(), network.AltNodeAddr(f).String(), t.env.Pod2.Addr(f).String(), unallocated.String(),
			} {
				s.Spec.ExternalIPs = append(s.Spec.ExternalIPs, a)
				s.Status.LoadBalancer.Ingress = append(s.Status.LoadBalancer.Ingress, environment.Ingress(a)...)
			}
		}
	}
	return party{
		what: "a tenant who asks for the addresses of other Services, of the node and of a pod", every: 100 * time.Millisecond, leave: t.leave,
		enter: func(ctx context.Context) (err error) {
			if moving, err = t.env.Services().Get(ctx, "moving", metav1.GetOptions{}); err != nil {
				return err
			}
			service, err = t.create(ctx, "claimant", framework.WithType(corev1.ServiceTypeLoadBalancer), environment.BothProtocols, claim)
			if err != nil {
				return err
			}
			return t.endpoints(ctx, service, 0, 3)
		},
		act: func(ctx context.Context, i int) error {
			return t.update(ctx, "claimant", func(s *corev1.Service) {
				claim(s)
				if i%2 == 0 {
					s.Spec.ExternalIPs = nil
				}
			})
		},
	}
}

// sticky lets many clients keep their endpoint, and takes the endpoints away.
func (t tenant) sticky() party {
	const many, clients, parts = 4, 1000, 20
	var front *corev1.Service
	return party{
		what:  "a tenant with session affinity for 40,000 clients, whose endpoints go and come again",
		every: 100 * time.Millisecond, least: parts, leave: t.leave,
		enter: func(ctx context.Context) error {
			for i := range many {
				service, err := t.create(ctx, fmt.Sprintf("sticky-%d", i), environment.BothProtocols, framework.WithType(corev1.ServiceTypeNodePort), func(s *corev1.Service) {
					s.Spec.SessionAffinity = corev1.ServiceAffinityClientIP
				})
				if err != nil {
					return err
				}
				if err := t.endpoints(ctx, service, 0, 50); err != nil {
					return err
				}
				front = service
			}
			return nil
		},
		act: func(ctx context.Context, i int) error {
			for _, f := range network.Families {
				if err := t.env.visit(f, uint16(front.Spec.Ports[1].NodePort), i%parts*clients, clients); err != nil {
					return fmt.Errorf("sending from many addresses: %w", err)
				}
			}
			return t.endpoints(ctx, front, 0, 49+i%2)
		},
	}
}

// visit sends a datagram from each of the client's addresses from the first on, to a node port.
func (env *fixture) visit(f model.Family, port uint16, first, n int) error {
	return env.Client.Do(func() error {
		var config net.ListenConfig
		config.Control = func(_, _ string, raw syscall.RawConn) error {
			return raw.Control(func(fd uintptr) { _ = unix.SetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_FREEBIND, 1) })
		}
		listener, err := config.ListenPacket(context.Background(), "udp", netip.AddrPortFrom(env.Client.Addr(f), 0).String())
		if err != nil {
			return err
		}
		conn := listener.(*net.UDPConn)
		defer func() { _ = conn.Close() }()
		to := net.UDPAddrFromAddrPort(netip.AddrPortFrom(env.Node.Addr(f), port))
		for i := range n {
			if _, _, err := conn.WriteMsgUDP([]byte("?"), source(env.Client.Extra(f, 1+first+i)), to); err != nil {
				return err
			}
		}
		return nil
	})
}

// source is the control message that lets a datagram come from an address.
func source(a netip.Addr) []byte {
	if a.Is4() {
		return unix.PktInfo4(&unix.Inet4Pktinfo{Spec_dst: a.As4()})
	}
	return unix.PktInfo6(&unix.Inet6Pktinfo{Addr: a.As16()})
}
