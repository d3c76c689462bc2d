package environment

import (
	"context"
	"net/netip"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	discoveryclient "k8s.io/client-go/kubernetes/typed/discovery/v1"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/network"
)

// Endpoint is an endpoint of an EndpointSlice, without the port. Without conditions it is ready.
type Endpoint struct {
	// Of is whose address it is: pods of the node are on the node, all else is [Elsewhere].
	Of *network.Namespace
	// Extra counts the further addresses of Of, from 1; 0 is the main one.
	Extra int
	// NotReady, Terminating: a terminating endpoint is still serving unless NotServing.
	NotReady, NotServing, Terminating bool
	// Nowhere hides which node it is on.
	Nowhere bool
	// Zones and Nodes are topology hints.
	Zones, Nodes []string
}

// Addr returns its address.
func (e Endpoint) Addr(f model.Family) netip.Addr {
	if e.Extra == 0 {
		return e.Of.Addr(f)
	}
	return e.Of.Extra(f, e.Extra)
}

// BothProtocols gives a Service the ports 80 over TCP and 80 over UDP.
func BothProtocols(s *corev1.Service) {
	s.Spec.Ports = []corev1.ServicePort{{Name: "tcp", Port: 80}, {Name: "udp", Port: 80, Protocol: corev1.ProtocolUDP}}
}

// Services is the client for Services of the Environment, Slices that for EndpointSlices.
func (s *Environment) Services() corev1client.ServiceInterface {
	return s.Cluster.Client().CoreV1().Services(s.Name)
}

// Slices is the client for EndpointSlices of the Environment.
func (s *Environment) Slices() discoveryclient.EndpointSliceInterface {
	return s.Cluster.Client().DiscoveryV1().EndpointSlices(s.Name)
}

// NewService builds a dual-stack Service with port 80 to 8080 in the Environment's namespace.
func (s *Environment) NewService(name string, options ...framework.ServiceOption) *corev1.Service {
	service := framework.NewService(s.Name, name, append([]framework.ServiceOption{framework.RequireDualStack()}, options...)...)
	for i := range service.Spec.Ports {
		service.Spec.Ports[i].TargetPort = intstr.FromInt32(8080)
	}
	return service
}

// Serve creates a Service of NewService with its endpoints.
func (s *Environment) Serve(ctx context.Context, name string, endpoints []Endpoint, options ...framework.ServiceOption) *corev1.Service {
	GinkgoHelper()
	return s.Create(ctx, s.NewService(name, options...), endpoints...)
}

// Create creates a Service as it is, with its load balancer IPs and endpoints, if it has any.
func (s *Environment) Create(ctx context.Context, service *corev1.Service, endpoints ...Endpoint) *corev1.Service {
	GinkgoHelper()
	created, err := s.Services().Create(ctx, service, metav1.CreateOptions{})
	s.Expect(err).NotTo(HaveOccurred())
	if len(service.Status.LoadBalancer.Ingress) > 0 {
		created = s.SetIngress(ctx, created.Name, service.Status.LoadBalancer.Ingress...)
	}
	if len(endpoints) > 0 {
		s.Endpoints(ctx, created, endpoints...)
	}
	return created
}

// SetIngress replaces the addresses that a Service has at its load balancer.
func (s *Environment) SetIngress(ctx context.Context, name string, ingress ...corev1.LoadBalancerIngress) *corev1.Service {
	GinkgoHelper()
	service := s.Get(ctx, name)
	service.Status.LoadBalancer.Ingress = ingress
	service, err := s.Services().UpdateStatus(ctx, service, metav1.UpdateOptions{})
	s.Expect(err).NotTo(HaveOccurred())
	return service
}

// Ingress are addresses at a load balancer.
func Ingress(addresses ...string) (ingress []corev1.LoadBalancerIngress) {
	for _, address := range addresses {
		ingress = append(ingress, corev1.LoadBalancerIngress{IP: address})
	}
	return ingress
}

// Endpoints makes these the endpoints of a Service, in one EndpointSlice for each of its families.
func (s *Environment) Endpoints(ctx context.Context, service *corev1.Service, endpoints ...Endpoint) {
	GinkgoHelper()
	for _, f := range network.Families {
		if slices.Contains(service.Spec.IPFamilies, corev1.IPFamily(f.String())) {
			s.Slice(ctx, s.NewSlice(service, f, endpoints...))
		}
	}
}

// Slice creates an EndpointSlice, or puts it in the place of the one with its name.
func (s *Environment) Slice(ctx context.Context, slice *discoveryv1.EndpointSlice) {
	GinkgoHelper()
	_, err := s.Slices().Update(ctx, slice, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		_, err = s.Slices().Create(ctx, slice, metav1.CreateOptions{})
	}
	s.Expect(err).NotTo(HaveOccurred())
}

// NewSlice builds one family's EndpointSlice, named after Service and family, with target ports.
func (s *Environment) NewSlice(service *corev1.Service, f model.Family, endpoints ...Endpoint) *discoveryv1.EndpointSlice {
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: s.Name, Name: service.Name + "-" + strings.ToLower(f.String()), Labels: map[string]string{discoveryv1.LabelServiceName: service.Name},
		},
		AddressType: discoveryv1.AddressType(f.String()),
	}
	for _, port := range service.Spec.Ports {
		slice.Ports = append(slice.Ports, discoveryv1.EndpointPort{Name: &port.Name, Protocol: &port.Protocol, Port: &port.TargetPort.IntVal})
	}
	for _, e := range endpoints {
		slice.Endpoints = append(slice.Endpoints, s.endpoint(e, f))
	}
	return slice
}

func (s *Environment) endpoint(e Endpoint, f model.Family) discoveryv1.Endpoint {
	serving := !e.NotServing && (!e.NotReady || e.Terminating)
	object := discoveryv1.Endpoint{
		Addresses:  []string{e.Addr(f).String()},
		Conditions: discoveryv1.EndpointConditions{Ready: new(serving && !e.Terminating), Serving: &serving, Terminating: &e.Terminating},
		NodeName:   new(Elsewhere),
	}
	switch {
	case e.Nowhere:
		object.NodeName = nil
	case slices.Contains([]*network.Namespace{s.Node, s.Pod1, s.Pod2}, e.Of):
		object.NodeName = &s.Name
	}
	if len(e.Zones)+len(e.Nodes) > 0 {
		object.Hints = &discoveryv1.EndpointHints{}
	}
	for _, zone := range e.Zones {
		object.Hints.ForZones = append(object.Hints.ForZones, discoveryv1.ForZone{Name: zone})
	}
	for _, node := range e.Nodes {
		object.Hints.ForNodes = append(object.Hints.ForNodes, discoveryv1.ForNode{Name: node})
	}
	return object
}

// Servers are an endpoint in each pod of the network.
func (s *Environment) Servers() []Endpoint {
	return []Endpoint{{Of: s.Pod1}, {Of: s.Pod2}, {Of: s.RemotePod}}
}

// Get reads a Service.
func (s *Environment) Get(ctx context.Context, name string) *corev1.Service {
	GinkgoHelper()
	service, err := s.Services().Get(ctx, name, metav1.GetOptions{})
	s.Expect(err).NotTo(HaveOccurred())
	return service
}

// Update changes a Service and returns what the API server made of it.
func (s *Environment) Update(ctx context.Context, name string, change func(*corev1.Service)) *corev1.Service {
	GinkgoHelper()
	service := s.Get(ctx, name)
	change(service)
	service, err := s.Services().Update(ctx, service, metav1.UpdateOptions{})
	s.Expect(err).NotTo(HaveOccurred())
	return service
}

// Delete deletes a Service and its EndpointSlices.
func (s *Environment) Delete(ctx context.Context, name string) {
	GinkgoHelper()
	s.Expect(s.Services().Delete(ctx, name, metav1.DeleteOptions{})).To(Succeed())
	of := metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + name}
	s.Expect(s.Slices().DeleteCollection(ctx, metav1.DeleteOptions{}, of)).To(Succeed())
}

// VIP returns the ClusterIP of a family with the Service's first port. It panics if there is none.
func VIP(service *corev1.Service, f model.Family) netip.AddrPort {
	for _, address := range service.Spec.ClusterIPs {
		if a := netip.MustParseAddr(address); model.FamilyOf(a) == f {
			return netip.AddrPortFrom(a, uint16(service.Spec.Ports[0].Port))
		}
	}
	panic("no " + f.String() + " address in " + service.Name)
}
