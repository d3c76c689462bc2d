//go:build linux

package environment

import (
	"context"
	"net/netip"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/network"
)

// Endpoint is a server on a pod of the network, or what claims to be one.
type Endpoint struct {
	// Of is whose address it is: a pod of the node is on the node, all else is not.
	Of *network.Namespace
	// Extra counts the further addresses of Of, from 1; 0 is the main one.
	Extra int
	// Port defaults to 8080.
	Port int32
	// NotReady, Terminating are conditions.
	NotReady, Terminating bool
}

// Addr returns its address.
func (e Endpoint) Addr(f model.Family) netip.Addr {
	if e.Extra == 0 {
		return e.Of.Addr(f)
	}
	return e.Of.Extra(f, e.Extra)
}

// BothProtocols gives a Service the ports 80 over TCP and 80 over UDP.
func BothProtocols() framework.ServiceOption {
	return func(s *corev1.Service) {
		s.Spec.Ports = []corev1.ServicePort{
			{Name: "tcp", Port: 80, Protocol: corev1.ProtocolTCP},
			{Name: "udp", Port: 80, Protocol: corev1.ProtocolUDP},
		}
	}
}

// NewService builds a Service with port 80 and addresses of both families in the Environment's namespace.
func (s *Environment) NewService(name string, options ...framework.ServiceOption) *corev1.Service {
	return framework.NewService(s.Name, name, append([]framework.ServiceOption{framework.RequireDualStack()}, options...)...)
}

// Service creates a Service of NewService.
func (s *Environment) Service(ctx context.Context, name string, options ...framework.ServiceOption) *corev1.Service {
	GinkgoHelper()
	service, err := s.Cluster.Client().CoreV1().Services(s.Name).Create(ctx, s.NewService(name, options...), metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	return service
}

// Serve creates a Service with its endpoints.
func (s *Environment) Serve(ctx context.Context, name string, endpoints []Endpoint, options ...framework.ServiceOption) *corev1.Service {
	GinkgoHelper()
	service := s.Service(ctx, name, options...)
	s.Endpoints(ctx, service, endpoints...)
	return service
}

// Endpoints makes these the endpoints of a Service, in one EndpointSlice for each family.
func (s *Environment) Endpoints(ctx context.Context, service *corev1.Service, endpoints ...Endpoint) {
	GinkgoHelper()
	for _, f := range network.Families {
		s.Slice(ctx, s.NewSlice(service, f, endpoints...))
	}
}

// Slice creates an EndpointSlice, or puts it in the place of the one with its name.
func (s *Environment) Slice(ctx context.Context, slice *discoveryv1.EndpointSlice) {
	GinkgoHelper()
	_, err := s.Cluster.Client().DiscoveryV1().EndpointSlices(s.Name).Update(ctx, slice, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		_, err = s.Cluster.Client().DiscoveryV1().EndpointSlices(s.Name).Create(ctx, slice, metav1.CreateOptions{})
	}
	Expect(err).NotTo(HaveOccurred())
}

// NewSlice builds the EndpointSlice of one family. All ports of the Service lead to the port of the first endpoint.
func (s *Environment) NewSlice(service *corev1.Service, f model.Family, endpoints ...Endpoint) *discoveryv1.EndpointSlice {
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: s.Name, Name: service.Name + map[model.Family]string{model.IPv4: "-4", model.IPv6: "-6"}[f],
			Labels: map[string]string{discoveryv1.LabelServiceName: service.Name},
		},
		AddressType: discoveryv1.AddressType(f.String()),
	}
	target := int32(8080)
	if len(endpoints) > 0 && endpoints[0].Port != 0 {
		target = endpoints[0].Port
	}
	for _, port := range service.Spec.Ports {
		slice.Ports = append(slice.Ports, discoveryv1.EndpointPort{Name: &port.Name, Protocol: &port.Protocol, Port: &target})
	}
	for _, e := range endpoints {
		slice.Endpoints = append(slice.Endpoints, s.endpoint(e, f))
	}
	return slice
}

func (s *Environment) endpoint(e Endpoint, f model.Family) discoveryv1.Endpoint {
	node, ready, serving := "elsewhere", !e.NotReady && !e.Terminating, !e.NotReady
	if e.Of == s.Pod1 || e.Of == s.Pod2 || e.Of == s.Node {
		node = s.Name
	}
	return discoveryv1.Endpoint{
		Addresses: []string{e.Addr(f).String()}, NodeName: &node,
		Conditions: discoveryv1.EndpointConditions{Ready: &ready, Serving: &serving, Terminating: &e.Terminating},
	}
}

// Update changes a Service and returns what the API server made of it.
func (s *Environment) Update(ctx context.Context, name string, change func(*corev1.Service)) *corev1.Service {
	GinkgoHelper()
	service, err := s.Cluster.Client().CoreV1().Services(s.Name).Get(ctx, name, metav1.GetOptions{})
	Expect(err).NotTo(HaveOccurred())
	change(service)
	service, err = s.Cluster.Client().CoreV1().Services(s.Name).Update(ctx, service, metav1.UpdateOptions{})
	Expect(err).NotTo(HaveOccurred())
	return service
}

// Delete deletes a Service and its EndpointSlices.
func (s *Environment) Delete(ctx context.Context, name string) {
	GinkgoHelper()
	Expect(s.Cluster.Client().CoreV1().Services(s.Name).Delete(ctx, name, metav1.DeleteOptions{})).To(Succeed())
	of := metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + name}
	Expect(s.Cluster.Client().DiscoveryV1().EndpointSlices(s.Name).DeleteCollection(ctx, metav1.DeleteOptions{}, of)).To(Succeed())
}

// VIP returns the ClusterIP of a family with the Service's first port. It panics if there is none.
func VIP(service *corev1.Service, f model.Family) netip.AddrPort {
	for _, address := range service.Spec.ClusterIPs {
		if a := netip.MustParseAddr(address); model.FamilyOf(a) == f {
			return netip.AddrPortFrom(a, uint16(service.Spec.Ports[0].Port)) //nolint:gosec // a port
		}
	}
	panic("no " + f.String() + " address in " + service.Name)
}
