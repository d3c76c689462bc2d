//go:build linux

package badinput_test

import (
	"context"
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/test/e2e/internal/environment"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/network"
)

// breakout tries to leave a comment, a rule and a table.
const breakout = "x\" -j DROP\n-A INPUT -j DROP\nCOMMIT\n*nat\n-F\n; reboot `reboot` $(reboot) \\"

// strange are changes to a proper EndpointSlice that the API server lets through, and after which the endpoint that it had is
// still good beside whatever is new.
var strange = map[string]func(*discoveryv1.EndpointSlice){
	"ports without numbers": func(s *discoveryv1.EndpointSlice) {
		s.Ports = append(s.Ports, discoveryv1.EndpointPort{Name: new("any")})
	},
	"port 0":     func(s *discoveryv1.EndpointSlice) { s.Ports = append(s.Ports, port("zero", 0)) },
	"port 70000": func(s *discoveryv1.EndpointSlice) { s.Ports = append(s.Ports, port("large", 70000)) },
	"port -1":    func(s *discoveryv1.EndpointSlice) { s.Ports = append(s.Ports, port("negative", -1)) },
	"a port that no Service has": func(s *discoveryv1.EndpointSlice) {
		s.Ports = append(s.Ports, port(strings.Repeat("a", 63), 80))
	},
	"200 ports": func(s *discoveryv1.EndpointSlice) {
		for i := range 200 {
			s.Ports = append(s.Ports, port(fmt.Sprintf("p-%d", i), 8080))
		}
	},
	"the same endpoint again and again": func(s *discoveryv1.EndpointSlice) {
		for range 20 {
			s.Endpoints = append(s.Endpoints, s.Endpoints[0])
		}
	},
	"further addresses of an endpoint": func(s *discoveryv1.EndpointSlice) {
		for i := range 90 {
			a := map[discoveryv1.AddressType]string{"IPv4": "240.0.0.%d", "IPv6": "ff0e::%d"}[s.AddressType]
			s.Endpoints[0].Addresses = append(s.Endpoints[0].Addresses, fmt.Sprintf(a, 1+i))
		}
	},
	"an endpoint that is not ready at an unused address": func(s *discoveryv1.EndpointSlice) {
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{
			Addresses:  []string{map[discoveryv1.AddressType]string{"IPv4": "255.255.255.255", "IPv6": "ff0e::1"}[s.AddressType]},
			Conditions: discoveryv1.EndpointConditions{Ready: new(false)},
		})
	},
	"annotations with newlines": func(s *discoveryv1.EndpointSlice) {
		s.Annotations = map[string]string{
			"note": breakout, "endpoints.kubernetes.io/last-change-trigger-time": "\n-A INPUT -j DROP\n",
		}
	},
	"a zone with newlines": func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].Zone = new(breakout) },
	"hints for no zone": func(s *discoveryv1.EndpointSlice) {
		s.Endpoints[0].Hints = &discoveryv1.EndpointHints{ForZones: []discoveryv1.ForZone{{Name: "A_.-z"}}}
	},
}

func port(name string, number int32) discoveryv1.EndpointPort {
	return discoveryv1.EndpointPort{Name: &name, Port: &number, Protocol: new(corev1.ProtocolTCP)}
}

// junk are addresses that the API server takes for those of endpoints.
var junk = map[model.Family][]string{
	model.IPv4: {"255.255.255.255", "240.0.0.1", "0.1.2.3", "224.0.1.1", "192.0.2.255", "10.96.0.1"},
	model.IPv6: {"ff0e::1", "ff05::2", "2001:db8::", "fd00:10:96::1", "1::"},
}

var _ = each("An agent that meets odd EndpointSlices", func(env *fixture) {
	It("serves the endpoints that are right in them", func(ctx SpecContext) {
		services := map[string]*corev1.Service{}
		for what, change := range strange {
			services[what] = env.Service(ctx, "odd-"+strings.ToLower(strings.ReplaceAll(what, " ", "-")))
			for _, f := range network.Families {
				slice := env.NewSlice(services[what], f, environment.Endpoint{Of: env.RemotePod})
				change(slice)
				env.Slice(ctx, slice)
			}
		}
		for what, service := range services {
			for _, f := range network.Families {
				Expect(environment.Reaches(env.Pod1, environment.VIP(service, f)).Server).To(Equal("remote-pod"), what)
			}
		}
	})

	It("survives endpoints at addresses that are none of a host", func(ctx SpecContext) {
		service := env.Service(ctx, "junk", environment.BothProtocols(), framework.WithType(corev1.ServiceTypeNodePort),
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

	It("ignores slices of other kinds and without a Service", func(ctx SpecContext) {
		for i, change := range []func(*discoveryv1.EndpointSlice){
			func(s *discoveryv1.EndpointSlice) {
				s.AddressType, s.Endpoints[0].Addresses = "FQDN", []string{"web.example.com"}
			},
			func(s *discoveryv1.EndpointSlice) { s.Labels = nil },
			func(s *discoveryv1.EndpointSlice) { s.Labels[discoveryv1.LabelServiceName] = "A_b.C-" + "d" },
			func(s *discoveryv1.EndpointSlice) { s.Ports = nil },
			func(s *discoveryv1.EndpointSlice) { s.Endpoints = nil },
		} {
			slice := env.NewSlice(env.good, model.IPv4, environment.Endpoint{Of: env.Node})
			slice.Name = fmt.Sprintf("other-kind-%d", i)
			change(slice)
			env.Slice(ctx, slice)
		}
		env.unharmed(ctx)
		for range 20 {
			Expect(env.Pod1.Dial(network.Probe{To: environment.VIP(env.good, model.IPv4)}).Server).NotTo(Equal("node"))
		}
	})
})

var _ = each("An agent that meets odd Services", func(env *fixture) {
	It("serves them under the longest and oddest of names", func(ctx SpecContext) {
		for _, name := range []string{strings.Repeat("a", 63), "0", "1-2-3", "pa-services", "xn--bcher-kva"} {
			service := env.Serve(ctx, name, []environment.Endpoint{{Of: env.Pod2}}, func(s *corev1.Service) {
				s.Annotations = map[string]string{"note": breakout, "service.kubernetes.io/topology-mode": breakout}
				s.Spec.Ports = []corev1.ServicePort{{Name: strings.Repeat("b", 63), Port: 80}, {Name: "0-0", Port: 65535}, {Name: "c", Port: 1}}
			})
			env.Served(service)
			for _, f := range network.Families {
				for _, port := range service.Spec.Ports {
					environment.Reaches(env.Pod1, portOf(environment.VIP(service, f), port.Port))
				}
			}
		}
	})

	It("serves one with 250 ports, each over three protocols", func(ctx SpecContext) {
		service := env.Serve(ctx, "broad", []environment.Endpoint{{Of: env.Pod2}}, func(s *corev1.Service) {
			s.Spec.Ports = nil
			for i := range int32(250) {
				for _, protocol := range []corev1.Protocol{corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP} {
					name := strings.ToLower(fmt.Sprintf("%s-%d", protocol, i))
					s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: name, Port: 1000 + i, Protocol: protocol})
				}
			}
		})
		for _, f := range network.Families {
			for _, port := range []int32{1000, 1111, 1249} {
				environment.Reaches(env.Pod1, portOf(environment.VIP(service, f), port))
			}
		}
		env.Delete(ctx, service.Name)
	})

	It("survives external IPs, load balancers and source ranges of all sorts", func(ctx SpecContext) {
		endpoints := []environment.Endpoint{{Of: env.Pod2}}
		env.Serve(ctx, "external", endpoints, func(s *corev1.Service) {
			s.Spec.ExternalIPs = []string{
				"255.255.255.255", "240.0.0.1", "0.1.2.3", "224.0.1.1", "10.96.0.1", "1.2.3.4", "1.2.3.4", "ff0e::1", "FD00::A",
				"fd00::0:a", "fd00:10:96::1", env.Node.Addr(model.IPv4).String(), env.Node.Addr(model.IPv6).String(), env.Pod2.Addr(model.IPv4).String(),
			}
		})
		for i, ranges := range [][]string{
			{" 10.0.0.0/8 ", "10.0.0.0/8\n"}, {"0.0.0.0/0"}, {"::/0", "0.0.0.0/0", "1.2.3.4/32"}, {"0.0.0.0/1", "128.0.0.0/1"},
		} {
			name := fmt.Sprintf("balanced-%d", i)
			env.Serve(ctx, name, endpoints, framework.WithType(corev1.ServiceTypeLoadBalancer),
				func(s *corev1.Service) { s.Spec.LoadBalancerSourceRanges = ranges })
			env.ingress(ctx, name, "0.0.0.0", "127.0.0.1", "224.0.0.1", "169.254.0.1", "255.255.255.255", "10.96.0.1", "::", "::1", "fe80::1",
				"FD00::A", "ff02::1", "ff0e::1", fmt.Sprintf("203.0.113.%d", 100+i), env.Node.Addr(model.IPv6).String())
		}
		env.unharmed(ctx)
		for _, name := range []string{"external", "balanced-0", "balanced-1", "balanced-2", "balanced-3"} {
			env.Served(env.get(ctx, name))
			env.Delete(ctx, name)
		}
	})

	It("survives a Service that changes between all kinds", func(ctx SpecContext) {
		service := env.Serve(ctx, "fickle", []environment.Endpoint{{Of: env.Pod2}})
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
})

var _ = each("An agent that meets a Service with 10,000 endpoints", func(env *fixture) {
	It("programs it and all others", func(ctx SpecContext) {
		crowd := env.Service(ctx, "crowd")
		for part := range 10 {
			slice := env.NewSlice(crowd, model.IPv4)
			slice.Name = fmt.Sprintf("part-%d", part)
			for i := range 1000 {
				a := fmt.Sprintf("10.180.%d.%d", 100+part*4+i/250, 1+i%250)
				slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{Addresses: []string{a}})
			}
			env.Slice(ctx, slice)
		}
		count := func() int {
			rules := env.Run(ctx, "iptables-"+env.Mode+"-save", "-t", "nat")
			return strings.Count(rules, "-j DNAT --to-destination 10.180.1")
		}
		Eventually(count).WithTimeout(environment.Soon).Should(BeNumerically(">=", 10000))
		env.unharmed(ctx)
		for part := range 10 {
			env.Slice(ctx, env.emptied(ctx, fmt.Sprintf("part-%d", part)))
		}
		Eventually(count).WithTimeout(environment.Soon).Should(BeNumerically("<", 10))
		env.Endpoints(ctx, crowd, environment.Endpoint{Of: env.Pod2})
		env.Served(crowd)
	})
})

func (env *fixture) emptied(ctx context.Context, name string) *discoveryv1.EndpointSlice {
	GinkgoHelper()
	slice, err := env.Cluster.Client().DiscoveryV1().EndpointSlices(env.Name).Get(ctx, name, metav1.GetOptions{})
	Expect(err).NotTo(HaveOccurred())
	slice.Endpoints = nil
	return slice
}

func (env *fixture) get(ctx context.Context, name string) *corev1.Service {
	GinkgoHelper()
	service, err := env.Cluster.Client().CoreV1().Services(env.Name).Get(ctx, name, metav1.GetOptions{})
	Expect(err).NotTo(HaveOccurred())
	return service
}

// ingress gives a Service addresses at a load balancer.
func (env *fixture) ingress(ctx context.Context, name string, addresses ...string) {
	GinkgoHelper()
	service := env.get(ctx, name)
	for _, address := range addresses {
		service.Status.LoadBalancer.Ingress = append(service.Status.LoadBalancer.Ingress, corev1.LoadBalancerIngress{IP: address})
	}
	_, err := env.Cluster.Client().CoreV1().Services(env.Name).UpdateStatus(ctx, service, metav1.UpdateOptions{})
	Expect(err).NotTo(HaveOccurred())
}
