package renumber_test

import (
	"context"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
)

// kinds are a Service of each kind.
func kinds(namespace string) (all []*corev1.Service) {
	add := func(name string, change func(*corev1.ServiceSpec)) {
		s := framework.NewService(namespace, name, framework.PreferDualStack())
		s.Spec.Selector = map[string]string{"app": name}
		s.Spec.Ports = []corev1.ServicePort{{Name: "http", Port: 80}, {Name: "dns", Port: 5353, Protocol: corev1.ProtocolUDP}}
		change(&s.Spec)
		all = append(all, s)
	}
	add("dual", func(*corev1.ServiceSpec) {})
	add("ipv4", func(s *corev1.ServiceSpec) {
		s.IPFamilyPolicy, s.IPFamilies = nil, []corev1.IPFamily{corev1.IPv4Protocol}
	})
	add("ipv6", func(s *corev1.ServiceSpec) {
		s.IPFamilyPolicy, s.IPFamilies = nil, []corev1.IPFamily{corev1.IPv6Protocol}
	})
	add("required", func(s *corev1.ServiceSpec) {
		s.IPFamilyPolicy, s.IPFamilies = new(corev1.IPFamilyPolicyRequireDualStack), []corev1.IPFamily{corev1.IPv6Protocol, corev1.IPv4Protocol}
	})
	add("nodeport", func(s *corev1.ServiceSpec) {
		s.Type, s.ExternalTrafficPolicy = corev1.ServiceTypeNodePort, corev1.ServiceExternalTrafficPolicyLocal
	})
	add("affine", func(s *corev1.ServiceSpec) {
		s.SessionAffinity, s.SessionAffinityConfig = corev1.ServiceAffinityClientIP, &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: new(int32(77))}}
		s.InternalTrafficPolicy, s.TrafficDistribution, s.PublishNotReadyAddresses = new(corev1.ServiceInternalTrafficPolicyLocal), new(corev1.ServiceTrafficDistributionPreferClose), true
	})
	add("balanced", func(s *corev1.ServiceSpec) {
		s.Type, s.ExternalTrafficPolicy, s.LoadBalancerSourceRanges = corev1.ServiceTypeLoadBalancer, corev1.ServiceExternalTrafficPolicyLocal, []string{"192.0.2.0/24"}
		s.LoadBalancerClass = new("example.com/balancer")
	})
	add("external", func(s *corev1.ServiceSpec) { s.ExternalIPs = []string{"192.0.2.77"} })
	return all
}

// comparable is a Service without what a renumbering changes.
func comparable(s *corev1.Service) *corev1.Service {
	s = s.DeepCopy()
	s.Spec.ClusterIP, s.Spec.ClusterIPs, s.ResourceVersion, s.ManagedFields = "", nil, "", nil
	return s
}

// heldIn are the addresses that the former IPAddresses of a namespace keep.
func heldIn(ctx context.Context, namespace string) (all []string) {
	GinkgoHelper()
	for _, ip := range c.IPAddresses(ctx) {
		if slices.Contains(ip.Finalizers, v1alpha1.FinalizerFormer) && ip.Spec.ParentRef.Namespace == namespace {
			all = append(all, ip.Name)
		}
	}
	return all
}

// inRange is "old" or "new".
func inRange(address string) string {
	if strings.HasPrefix(address, "10.96.") || strings.HasPrefix(address, "fd00:10:96:") {
		return "old"
	}
	return "new"
}

var _ = Describe("kubectl clusterip renumber", func() {
	It("moves Services of all kinds, which stay as they are but for their addresses, back, and again to the end", func(ctx SpecContext) {
		namespace := newNamespace(ctx)
		var before []*corev1.Service
		for _, s := range kinds(namespace) {
			s = create(ctx, s)
			if s.Spec.Type == corev1.ServiceTypeLoadBalancer {
				s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "192.0.2.78", IPMode: new(corev1.LoadBalancerIPModeVIP)}}
				s = suite.Must(c.Client().CoreV1().Services(namespace).UpdateStatus(ctx, s, metav1.UpdateOptions{}))
			}
			before = append(before, s)
		}
		offer(ctx)
		file, result := plan(ctx, namespace, "--include-load-balancers")
		Expect(result.ExitCode).To(BeZero(), result.String())
		expect := func(where string, held int) {
			GinkgoHelper()
			count := 0
			for _, was := range before {
				now := get(ctx, namespace, was.Name)
				for _, a := range now.Spec.ClusterIPs {
					Expect(inRange(a)).To(Equal(where), "%s of %s", a, was.Name)
				}
				if where == "old" {
					Expect(now.Spec.ClusterIPs).To(Equal(was.Spec.ClusterIPs))
				}
				count += len(now.Spec.ClusterIPs)
				same := comparable(now)
				if held > 0 {
					Expect(same.Annotations).To(HaveKey(v1alpha1.AnnotationFormerIPs))
					delete(same.Annotations, v1alpha1.AnnotationFormerIPs)
					same.Spec.ExternalIPs = slices.DeleteFunc(same.Spec.ExternalIPs, func(a string) bool { return a != "192.0.2.77" })
					same.Spec.ExternalTrafficPolicy = was.Spec.ExternalTrafficPolicy // external IPs bring one
				}
				Expect(cmp.Diff(comparable(was), same, cmpopts.EquateEmpty())).To(BeEmpty())
			}
			Expect(heldIn(ctx, namespace)).To(HaveLen(held * count))
		}
		suite.Exits(1, renumber(ctx, "run", "--from", file, "--wait=false"))
		expect("new", 1)
		for _, was := range before {
			now := get(ctx, namespace, was.Name)
			Expect(now.Spec.ExternalIPs).To(ContainElements(was.Spec.ClusterIPs))
		}

		suite.Exits(1, renumber(ctx, "rollback", "--from", file, "--wait=false"))
		expect("old", 1)
		succeed(ctx, append([]string{"rollback", "--from", file}, quick...)...)
		expect("old", 0)
		succeed(ctx, append([]string{"run", "--from", file}, quick...)...)
		expect("new", 0)
		succeed(ctx, "status", "--from", file)
		for _, was := range before {
			Expect(get(ctx, namespace, was.Name).ManagedFields).NotTo(ContainElement(HaveField("Manager", v1alpha1.ManagerRenumbering)))
		}
	})
})
