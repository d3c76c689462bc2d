package renumber_test

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/test/e2e/internal/environment"
	"github.com/clusterip-operator/clusterip-operator/test/framework/network"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
)

// services is how many there are, sampled how many of them are in use: two of each kind.
const services, sampled = 200, 20

// kinds change the i-th Service, which has both families and the ports 80 of TCP and of UDP.
var kinds = []func(s *corev1.Service, i int){
	func(*corev1.Service, int) {},
	func(s *corev1.Service, _ int) { single(s, corev1.IPv4Protocol) },
	func(s *corev1.Service, _ int) { single(s, corev1.IPv6Protocol) },
	func(s *corev1.Service, _ int) {
		s.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv6Protocol, corev1.IPv4Protocol}
	},
	func(s *corev1.Service, _ int) { s.Spec.Type = corev1.ServiceTypeNodePort },
	func(s *corev1.Service, _ int) {
		s.Spec.Type, s.Spec.ExternalTrafficPolicy = corev1.ServiceTypeNodePort, corev1.ServiceExternalTrafficPolicyLocal
	},
	balanced,
	func(s *corev1.Service, i int) {
		balanced(s, i)
		s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
	},
	func(s *corev1.Service, _ int) { s.Spec.SessionAffinity = corev1.ServiceAffinityClientIP },
	func(s *corev1.Service, _ int) {
		s.Spec.InternalTrafficPolicy = new(corev1.ServiceInternalTrafficPolicyLocal)
	},
}

func single(s *corev1.Service, f corev1.IPFamily) {
	s.Spec.IPFamilyPolicy, s.Spec.IPFamilies = nil, []corev1.IPFamily{f}
}

// balanced makes a load balancer with an IP of each family.
func balanced(s *corev1.Service, i int) {
	s.Spec.Type = corev1.ServiceTypeLoadBalancer
	for _, f := range network.Families {
		s.Status.LoadBalancer.Ingress = append(s.Status.LoadBalancer.Ingress, environment.Ingress(network.VirtualAddr(f, i+1).String())...)
	}
}

// populate creates the Services, with endpoints on the node and elsewhere.
func (env *fixture) populate(ctx context.Context) {
	GinkgoHelper()
	env.before = make([]*corev1.Service, services)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(8)
	for i := range services {
		group.Go(func() (err error) {
			env.before[i], err = env.serve(ctx, i)
			return err
		})
	}
	Expect(group.Wait()).To(Succeed())
}

// serve creates the i-th Service.
func (env *fixture) serve(ctx context.Context, i int) (*corev1.Service, error) {
	s := env.NewService(fmt.Sprintf("s-%03d", i), environment.BothProtocols)
	kinds[i%len(kinds)](s, i)
	created, err := env.Services().Create(ctx, s, metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	if len(s.Status.LoadBalancer.Ingress) > 0 {
		created.Status.LoadBalancer = s.Status.LoadBalancer
		if created, err = env.Services().UpdateStatus(ctx, created, metav1.UpdateOptions{}); err != nil {
			return nil, err
		}
	}
	for _, f := range familiesOf(created) {
		slice := env.NewSlice(created, f, environment.Endpoint{Of: env.Pod2}, environment.Endpoint{Of: env.RemotePod})
		if _, err := env.Slices().Create(ctx, slice, metav1.CreateOptions{}); err != nil {
			return nil, err
		}
	}
	return created, nil
}

// sameBut expects Services in a range, otherwise as before, with node ports and load balancer IPs.
func (env *fixture) sameBut(ctx context.Context, prefixes ...string) {
	GinkgoHelper()
	Expect(env.countIn(ctx, prefixes...)).To(Equal(services))
	all := suite.Must(env.Services().List(ctx, metav1.ListOptions{}))
	addresses := suite.Must(cluster.Networking().IPAddresses().List(ctx, metav1.ListOptions{}))
	named := map[string]string{}
	for _, ip := range addresses.Items {
		named[ip.Name] = ip.Spec.ParentRef.Name
	}
	for i, now := range all.Items { // in the order of their names
		was := env.before[i]
		Expect(now.UID).To(Equal(was.UID))
		Expect(now.Spec.Type).To(Equal(was.Spec.Type))
		Expect(now.Spec.Ports).To(Equal(was.Spec.Ports))
		Expect(now.Spec.HealthCheckNodePort).To(Equal(was.Spec.HealthCheckNodePort))
		for _, address := range now.Spec.ClusterIPs {
			Expect(named).To(HaveKeyWithValue(address, now.Name))
		}
		Expect(now.Status.LoadBalancer).To(Equal(was.Status.LoadBalancer))
	}
}
