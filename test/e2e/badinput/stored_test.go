//go:build linux

package badinput_test

import (
	"context"
	"encoding/json"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/test/e2e/internal/environment"
	"github.com/clusterip-operator/clusterip-operator/test/framework/network"
)

// store puts an object into etcd as it is: so do clusters have it from an API server of long ago, which did not validate, or from one with
// a mistake. The API server serves what it finds there.
func (env *fixture) store(ctx context.Context, key string, object any) {
	GinkgoHelper()
	etcd, err := clientv3.New(clientv3.Config{Endpoints: []string{env.Cluster.Etcd.URL()}, Logger: zap.NewNop()})
	Expect(err).NotTo(HaveOccurred())
	defer func() { _ = etcd.Close() }()
	text, err := json.Marshal(object)
	Expect(err).NotTo(HaveOccurred())
	_, err = etcd.Put(ctx, "/registry/"+key, string(text))
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func(ctx SpecContext) {
		etcd, err := clientv3.New(clientv3.Config{Endpoints: []string{env.Cluster.Etcd.URL()}, Logger: zap.NewNop()})
		Expect(err).NotTo(HaveOccurred())
		defer func() { _ = etcd.Close() }()
		_, err = etcd.Delete(ctx, "/registry/"+key)
		Expect(err).NotTo(HaveOccurred())
	})
}

// release takes away the IPAddresses of a Service when it is gone, if it is said before store: nobody else does so at once for a Service that
// is taken out of etcd.
func (env *fixture) release(service *corev1.Service) {
	DeferCleanup(func(ctx SpecContext) {
		for _, address := range service.Spec.ClusterIPs {
			err := env.Cluster.Networking().IPAddresses().Delete(ctx, address, metav1.DeleteOptions{})
			Expect(err).To(Or(Not(HaveOccurred()), Satisfy(apierrors.IsNotFound)))
		}
	})
}

// corruptions are what no API server of today would write. Each leaves the Service's first port alone.
var corruptions = map[string]func(*corev1.Service){
	"a name that breaks out": func(s *corev1.Service) {
		s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: breakout, Port: 81, Protocol: corev1.ProtocolTCP})
	},
	"another protocol": func(s *corev1.Service) {
		s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: "icmp", Port: 82, Protocol: "ICMP -j DROP"})
	},
	"ports out of range": func(s *corev1.Service) {
		for name, port := range map[string]int32{"zero": 0, "huge": 70000, "negative": -80} {
			s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: name, Port: port, NodePort: port, Protocol: corev1.ProtocolTCP})
		}
	},
	"addresses that are none": func(s *corev1.Service) {
		s.Spec.ExternalIPs = []string{"", "foo", "1.2.3.4 -j DROP", "010.1.2.3", "::ffff:1.2.3.4", "1.2.3.4/0", "fe80::1%eth0", breakout}
		s.Spec.LoadBalancerSourceRanges = []string{"", "foo", "10.0.0.0/33", "010.0.0.0/8", "::ffff:10.0.0.0/104", "10.1.2.3/8", breakout}
		for _, a := range s.Spec.ExternalIPs {
			s.Status.LoadBalancer.Ingress = append(s.Status.LoadBalancer.Ingress, corev1.LoadBalancerIngress{IP: a})
		}
	},
	"a third ClusterIP": func(s *corev1.Service) {
		s.Spec.ClusterIPs = append(s.Spec.ClusterIPs, breakout, "", "None", "10.96.0.300")
	},
	"unknown enum values": func(s *corev1.Service) {
		s.Spec.SessionAffinity, s.Spec.ExternalTrafficPolicy = "Sometimes", "Maybe"
		s.Spec.InternalTrafficPolicy = new(corev1.ServiceInternalTrafficPolicy("Perhaps"))
	},
	"affinity for longer than a set can remember": func(s *corev1.Service) {
		s.Spec.SessionAffinity = corev1.ServiceAffinityClientIP
		s.Spec.SessionAffinityConfig = &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: new(int32(2147483647))}}
	},
	"affinity for less than nothing": func(s *corev1.Service) {
		s.Spec.SessionAffinity = corev1.ServiceAffinityClientIP
		s.Spec.SessionAffinityConfig = &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: new(int32(-1))}}
	},
	"the same port twice": func(s *corev1.Service) { s.Spec.Ports = append(s.Spec.Ports, s.Spec.Ports[0]) },
}

var _ = each("An agent that meets objects which no API server would take", func(env *fixture) {
	It("serves what is right in Services", func(ctx SpecContext) {
		services := map[string]*corev1.Service{}
		for what := range corruptions {
			services[what] = env.Serve(ctx, fmt.Sprintf("corrupt-%d", len(services)), []environment.Endpoint{{Of: env.Pod2}})
		}
		for what, service := range services {
			env.Served(service)
			env.release(service)
			service = service.DeepCopy()
			corruptions[what](service)
			service.Kind, service.APIVersion, service.ResourceVersion = "Service", "v1", ""
			env.store(ctx, "services/specs/"+env.Name+"/"+service.Name, service)
		}
		env.unharmed(ctx)
		for what, service := range services {
			for _, f := range network.Families {
				Expect(env.Pod1.Dial(network.Probe{To: environment.VIP(service, f)})).To(environment.End(network.Connected), what)
			}
		}
	})

	It("serves what is right in EndpointSlices", func(ctx SpecContext) {
		service := env.Serve(ctx, "fed", []environment.Endpoint{{Of: env.Pod2}})
		slice := env.NewSlice(service, model.IPv4)
		slice.Name = "corrupt"
		slice.Kind, slice.APIVersion = "EndpointSlice", "discovery.k8s.io/v1"
		for _, a := range []string{
			"", "foo", "1.2.3.4 -j DROP", "010.1.2.3", "::ffff:10.0.0.1", "fd00::1", "10.0.0.1/8", "127.0.0.1", "0.0.0.0", breakout,
		} {
			slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{Addresses: []string{a}, NodeName: new(breakout), Zone: new(breakout)})
		}
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{Addresses: []string{}})
		slice.Ports = append(slice.Ports, discoveryv1.EndpointPort{
			Name: new(breakout), Port: new(int32(80)), Protocol: new(corev1.Protocol("ICMP")),
		})
		env.store(ctx, "endpointslices/"+env.Name+"/corrupt", slice)
		env.unharmed(ctx)
		for range 30 {
			Expect(env.Pod1.Dial(network.Probe{To: environment.VIP(service, model.IPv4)}).Server).To(Equal("pod2"))
		}
	})
})
