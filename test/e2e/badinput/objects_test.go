package badinput_test

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/test/e2e/internal/environment"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/network"
)

// breakout tries to leave a comment, a rule and a table.
const breakout = "x\" -j DROP\n-A INPUT -j DROP\nCOMMIT\n*nat\n-F\n; reboot `reboot` $(reboot) \\"

// junk are addresses that the API server takes for those of endpoints.
var junk = map[model.Family][]string{
	model.IPv4: {"255.255.255.255", "240.0.0.1", "0.1.2.3", "224.0.1.1", "192.0.2.255", "10.96.0.1"},
	model.IPv6: {"ff0e::1", "ff05::2", "2001:db8::", "fd00:10:96::1", "1::"},
}

var _ = each("An agent that meets odd objects", func(env *fixture) {
	It("serves the endpoints that are right in an EndpointSlice", func(ctx SpecContext) {
		service := env.Serve(ctx, "odd", nil)
		for _, f := range network.Families {
			slice := env.NewSlice(service, f, slices.Repeat([]environment.Endpoint{{Of: env.RemotePod}}, 20)...)
			slice.Annotations = map[string]string{"note": breakout, "endpoints.kubernetes.io/last-change-trigger-time": "\n-A INPUT -j DROP\n"}
			slice.Endpoints[0].Zone, slice.Endpoints[0].Hints = new(breakout), &discoveryv1.EndpointHints{ForZones: []discoveryv1.ForZone{{Name: "A_.-z"}}}
			slice.Endpoints[0].Addresses = append(slice.Endpoints[0].Addresses, junk[f]...)
			slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{
				Addresses: junk[f][:1], Conditions: discoveryv1.EndpointConditions{Ready: new(false)},
			})
			slice.Ports = append(slice.Ports, discoveryv1.EndpointPort{Name: new("any")})
			for i, number := range []int32{0, 70000, -1, 80} {
				slice.Ports = append(slice.Ports, discoveryv1.EndpointPort{Name: new(fmt.Sprintf("p-%d", i)), Port: &number})
			}
			env.Slice(ctx, slice)
			Expect(environment.Reaches(env.Pod1, environment.VIP(service, f)).Server).To(Equal("remote-pod"))
		}
	})

	It("survives endpoints at addresses that are none of a host", func(ctx SpecContext) {
		service := env.Serve(ctx, "junk", nil, environment.BothProtocols, framework.WithType(corev1.ServiceTypeNodePort),
			func(s *corev1.Service) { s.Spec.SessionAffinity = corev1.ServiceAffinityClientIP })
		for _, f := range network.Families {
			slice := env.NewSlice(service, f)
			for _, a := range junk[f] {
				slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{Addresses: []string{a}, NodeName: &env.Name})
			}
			env.Slice(ctx, slice)
		}
		env.unharmed(ctx)
		env.Delete(ctx, service.Name)
	})

	It("serves Services under the longest and oddest of names", func(ctx SpecContext) {
		for _, name := range []string{strings.Repeat("a", 63), "0", "pa-services", "xn--bcher-kva"} {
			service := env.serve(ctx, name, func(s *corev1.Service) {
				s.Annotations = map[string]string{"note": breakout, "service.kubernetes.io/topology-mode": breakout}
				s.Spec.Ports = []corev1.ServicePort{{Name: strings.Repeat("b", 63), Port: 80}, {Name: "0-0", Port: 65535}, {Name: "c", Port: 1}}
			})
			for _, f := range network.Families {
				for _, port := range service.Spec.Ports {
					environment.Reaches(env.Pod1, netip.AddrPortFrom(environment.VIP(service, f).Addr(), uint16(port.Port)))
				}
			}
		}
	})

	It("serves one with 250 ports, each over three protocols", func(ctx SpecContext) {
		service := env.serve(ctx, "broad", func(s *corev1.Service) {
			s.Spec.Ports = nil
			for i := range int32(250) {
				for _, protocol := range []corev1.Protocol{corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP} {
					name := strings.ToLower(fmt.Sprintf("%s-%d", protocol, i))
					s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: name, Port: 1000 + i, Protocol: protocol})
				}
			}
		})
		for _, f := range network.Families {
			for _, port := range []uint16{1000, 1249} {
				environment.Reaches(env.Pod1, netip.AddrPortFrom(environment.VIP(service, f).Addr(), port))
			}
		}
		env.Delete(ctx, service.Name)
	})

	It("survives external IPs, load balancers and source ranges of all sorts", func(ctx SpecContext) {
		odd := []string{"255.255.255.255", "240.0.0.1", "224.0.1.1", "10.96.0.1", "1.2.3.4", "ff0e::1", "FD00::A", "fd00::0:a", "fd00:10:96::1"}
		services := []*corev1.Service{env.serve(ctx, "external", func(s *corev1.Service) {
			s.Spec.ExternalIPs = append(odd, env.Node.Addr(model.IPv4).String(), env.Node.Addr(model.IPv6).String(), env.Pod2.Addr(model.IPv4).String())
		})}
		for i, ranges := range [][]string{
			{" 10.0.0.0/8 ", "10.0.0.0/8\n"}, {"0.0.0.0/0"}, {"::/0", "0.0.0.0/0", "1.2.3.4/32"}, {"0.0.0.0/1", "128.0.0.0/1"},
		} {
			services = append(services, env.serve(ctx, fmt.Sprintf("balanced-%d", i), framework.WithType(corev1.ServiceTypeLoadBalancer),
				func(s *corev1.Service) {
					s.Spec.LoadBalancerSourceRanges = ranges
					s.Status.LoadBalancer.Ingress = environment.Ingress(append(odd, "0.0.0.0", "127.0.0.1", "169.254.0.1", "::", "::1", "fe80::1", "ff02::1",
						fmt.Sprintf("203.0.113.%d", 100+i), env.Node.Addr(model.IPv6).String())...)
				}))
		}
		env.unharmed(ctx)
		env.Served(services...)
		for _, service := range services {
			env.Delete(ctx, service.Name)
		}
	})

	It("survives a Service that changes between all kinds", func(ctx SpecContext) {
		service := env.serve(ctx, "fickle")
		for range 2 {
			env.Update(ctx, service.Name, func(s *corev1.Service) {
				s.Spec = corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "example.com", Ports: s.Spec.Ports}
			})
			service = env.Update(ctx, service.Name, func(s *corev1.Service) {
				s.Spec = corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 80}},
					IPFamilyPolicy: new(corev1.IPFamilyPolicyRequireDualStack), ExternalTrafficPolicy: corev1.ServiceExternalTrafficPolicyLocal}
			})
			env.Served(service)
			service = env.Update(ctx, service.Name, func(s *corev1.Service) {
				s.Spec.Type, s.Spec.ExternalTrafficPolicy, s.Spec.HealthCheckNodePort = corev1.ServiceTypeClusterIP, "", 0
				s.Spec.Ports[0].NodePort, s.Spec.AllocateLoadBalancerNodePorts = 0, nil
			})
			env.Served(service)
		}
	})

	It("programs a Service with 10,000 endpoints, and all others", func(ctx SpecContext) {
		crowd := env.Serve(ctx, "crowd", nil)
		var slices []*discoveryv1.EndpointSlice
		for part := range 10 {
			slice := env.NewSlice(crowd, model.IPv4)
			slice.Name = fmt.Sprintf("part-%d", part)
			for i := range 1000 {
				a := fmt.Sprintf("10.180.%d.%d", 100+part*4+i/250, 1+i%250)
				slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{Addresses: []string{a}})
			}
			env.Slice(ctx, slice)
			slices = append(slices, slice)
		}
		count := func() int {
			list := []string{"iptables-" + env.Mode + "-save", "-t", "nat"}
			if env.Mode == environment.Native {
				list = []string{"nft", "list", "map", "ip", "clusterip-proxyagent", "endpoints"}
			}
			return len(regexp.MustCompile(`(to-destination|:) 10\.180\.1\d\d\.`).FindAllString(env.Run(ctx, list[0], list[1:]...), -1))
		}
		Eventually(count).WithTimeout(environment.Soon).Should(BeNumerically(">=", 10000))
		env.unharmed(ctx)
		for _, slice := range slices {
			slice.Endpoints = nil
			env.Slice(ctx, slice)
		}
		Eventually(count).WithTimeout(environment.Soon).Should(BeZero())
	})
})

// corruptions are what no API server writes today. All leave the Service's first port alone.
var corruptions = []func(*corev1.Service){
	func(s *corev1.Service) {
		for name, port := range map[string]int32{"zero": 0, "huge": 70000, "negative": -80, breakout: 81} {
			s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: name, Port: port, NodePort: port, Protocol: corev1.ProtocolTCP})
		}
		s.Spec.Ports = append(s.Spec.Ports, s.Spec.Ports[0], corev1.ServicePort{Name: "icmp", Port: 82, Protocol: "ICMP -j DROP"})
	},
	func(s *corev1.Service) {
		s.Spec.ExternalIPs = []string{"", "foo", "1.2.3.4 -j DROP", "010.1.2.3", "::ffff:1.2.3.4", "1.2.3.4/0", "fe80::1%eth0", breakout}
		s.Spec.LoadBalancerSourceRanges = []string{"", "foo", "10.0.0.0/33", "010.0.0.0/8", "::ffff:10.0.0.0/104", "10.1.2.3/8", breakout}
		s.Status.LoadBalancer.Ingress = environment.Ingress(s.Spec.ExternalIPs...)
		s.Spec.ClusterIPs = append(s.Spec.ClusterIPs, breakout, "", "None", "10.96.0.300")
	},
	func(s *corev1.Service) {
		s.Spec.SessionAffinity, s.Spec.ExternalTrafficPolicy = "Sometimes", "Maybe"
		s.Spec.InternalTrafficPolicy = new(corev1.ServiceInternalTrafficPolicy("Perhaps"))
	},
	affinityFor(2147483647), affinityFor(-1),
}

func affinityFor(seconds int32) func(*corev1.Service) {
	return func(s *corev1.Service) {
		s.Spec.SessionAffinity = corev1.ServiceAffinityClientIP
		s.Spec.SessionAffinityConfig = &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: &seconds}}
	}
}

var _ = each("An agent that meets objects which no API server would take", func(env *fixture) {
	It("serves what is right in Services", func(ctx SpecContext) {
		var services []*corev1.Service
		for i, corrupt := range corruptions {
			service := env.serve(ctx, fmt.Sprintf("corrupt-%d", i))
			services = append(services, service)
			env.Served(service)
			DeferCleanup(func(ctx SpecContext) { // no controller does so at once for a Service that is taken out of etcd
				for _, address := range service.Spec.ClusterIPs {
					err := env.Cluster.Networking().IPAddresses().Delete(ctx, address, metav1.DeleteOptions{})
					Expect(err).To(Or(Not(HaveOccurred()), Satisfy(apierrors.IsNotFound)))
				}
			})
			object := service.DeepCopy()
			corrupt(object)
			object.Kind, object.APIVersion, object.ResourceVersion = "Service", "v1", ""
			env.store(ctx, "services/specs/"+env.Name+"/"+object.Name, object)
		}
		env.unharmed(ctx)
		for i, service := range services {
			for _, f := range network.Families {
				Expect(env.Pod1.Dial(network.Probe{To: environment.VIP(service, f)})).To(environment.End(network.Connected), "corruption %d", i)
			}
		}
	})

	It("serves what is right in EndpointSlices", func(ctx SpecContext) {
		service := env.serve(ctx, "fed")
		slice := env.NewSlice(service, model.IPv4)
		slice.Name, slice.Kind, slice.APIVersion = "corrupt", "EndpointSlice", "discovery.k8s.io/v1"
		for _, a := range []string{
			"", "foo", "1.2.3.4 -j DROP", "010.1.2.3", "::ffff:10.0.0.1", "fd00::1", "10.0.0.1/8", "127.0.0.1", "0.0.0.0", breakout,
		} {
			slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{Addresses: []string{a}, NodeName: new(breakout), Zone: new(breakout)})
		}
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{Addresses: []string{}})
		slice.Ports = append(slice.Ports, discoveryv1.EndpointPort{Name: new(breakout), Port: new(int32(80)), Protocol: new(corev1.Protocol("ICMP"))})
		env.store(ctx, "endpointslices/"+env.Name+"/corrupt", slice)
		env.unharmed(ctx)
		for range 30 {
			Expect(env.Pod1.Dial(network.Probe{To: environment.VIP(service, model.IPv4)}).Server).To(Equal("pod2"))
		}
	})
})
