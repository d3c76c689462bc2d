package steering_test

import (
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
)

// A tenant with an exclusive range and no other. Cooling down shows which addresses were freed.
var _ = inOrder("A Service of a tenant", func() {
	const range4, range6 = "10.110.0.0/25", "fd00:110::/121"

	BeforeAll(func(ctx SpecContext) {
		c.OfferRange(ctx, "blue", nil, range4, range6)
		c.Program(ctx, "blue", "{serviceCIDRs: [blue], namespaceSelector: {matchLabels: {tenant: blue}}, exclusive: true, onFull: Fail, coolDown: 1h}")
	})
	AfterEach(func(ctx SpecContext) { c.ExpectConsistent(ctx) })

	rangeOf := map[corev1.IPFamily]string{corev1.IPv4Protocol: range4, corev1.IPv6Protocol: range6}
	other := map[corev1.IPFamily]corev1.IPFamily{corev1.IPv4Protocol: corev1.IPv6Protocol, corev1.IPv6Protocol: corev1.IPv4Protocol}

	DescribeTable("gets a second family and loses it again", func(ctx SpecContext, first corev1.IPFamily, policy corev1.IPFamilyPolicy, byFamilies bool) {
		service := c.Create(ctx, cluster.Single("blue", fmt.Sprintf("convert-%s-%s-%t", lower(first), lower(corev1.IPFamily(policy)), byFamilies), first))
		Expect(service).To(lieIn(rangeOf[first]))
		primary := service.Spec.ClusterIP
		for range 2 {
			service = change(ctx, service, func(s *corev1.Service) {
				s.Spec.IPFamilyPolicy = &policy
				if byFamilies {
					s.Spec.IPFamilies = []corev1.IPFamily{first, other[first]}
				}
			})
			Expect(service).To(lieIn(rangeOf[first], rangeOf[other[first]]))
			Expect(service.Spec.ClusterIP).To(Equal(primary))
			secondary := service.Spec.ClusterIPs[1]
			Eventually(c.Owner).WithArguments(ctx, secondary).Should(Equal("blue/" + service.Name))

			service = change(ctx, service, func(s *corev1.Service) {
				s.Spec.IPFamilyPolicy = new(corev1.IPFamilyPolicySingleStack)
				if byFamilies {
					s.Spec.IPFamilies, s.Spec.ClusterIPs = []corev1.IPFamily{first}, []string{primary}
				}
			})
			Expect(service.Spec.ClusterIPs).To(Equal([]string{primary}))
			expectCools(ctx, secondary)
		}
	},
		Entry("IPv4 first, preferred", corev1.IPv4Protocol, corev1.IPFamilyPolicyPreferDualStack, false),
		Entry("IPv4 first, required", corev1.IPv4Protocol, corev1.IPFamilyPolicyRequireDualStack, false),
		Entry("IPv4 first, spelled out", corev1.IPv4Protocol, corev1.IPFamilyPolicyRequireDualStack, true),
		Entry("IPv6 first, preferred", corev1.IPv6Protocol, corev1.IPFamilyPolicyPreferDualStack, false),
		Entry("IPv6 first, required", corev1.IPv6Protocol, corev1.IPFamilyPolicyRequireDualStack, false),
		Entry("IPv6 first, spelled out", corev1.IPv6Protocol, corev1.IPFamilyPolicyPreferDualStack, true),
	)

	It("is refused a second family when the range has none left, and keeps what it has", func(ctx SpecContext) {
		c.OfferRange(ctx, "tight", nil, "10.110.1.0/28", "fd00:110:1::/126")
		c.Program(ctx, "tight", "{serviceCIDRs: [tight], namespaceSelector: {matchLabels: {tenant: green}}, exclusive: true, onFull: Fail}")
		var last *corev1.Service
		for i := range 4 {
			last = c.Create(ctx, cluster.Single("green", fmt.Sprintf("tight-%d", i), corev1.IPv4Protocol))
			if i < 3 {
				change(ctx, last, func(s *corev1.Service) { s.Spec.IPFamilyPolicy = new(corev1.IPFamilyPolicyRequireDualStack) })
			}
		}
		_, err := tryChange(ctx, last, func(s *corev1.Service) { s.Spec.IPFamilyPolicy = new(corev1.IPFamilyPolicyRequireDualStack) })
		Expect(cluster.ExpectRefusal(err, "tight")).To(ContainSubstring("IPv6"))
		_, err = tryChange(ctx, last, func(s *corev1.Service) {
			s.Spec.IPFamilyPolicy, s.Spec.ClusterIPs = new(corev1.IPFamilyPolicyRequireDualStack), []string{last.Spec.ClusterIP, "fd00:110::77"}
		})
		cluster.ExpectRefusal(err, "blue")
		change(ctx, last, func(s *corev1.Service) { s.Labels = map[string]string{"as": "ever"} })
		c.ExpectNothingLeaked(ctx)
	})

	It("gets addresses when it is an alias no more, and frees them when it becomes one", func(ctx SpecContext) {
		service := c.Create(ctx, framework.NewService("blue", "alias", framework.ExternalName("example.com")))
		Expect(service.Spec.ClusterIPs).To(BeEmpty())
		for range 2 {
			service = change(ctx, service, func(s *corev1.Service) {
				s.Spec.Type, s.Spec.ExternalName, s.Spec.IPFamilyPolicy = corev1.ServiceTypeClusterIP, "", new(corev1.IPFamilyPolicyRequireDualStack)
			})
			Expect(service).To(lieIn(range4, range6))
			freed := service.Spec.ClusterIPs
			service = change(ctx, service, func(s *corev1.Service) {
				s.Spec.Type, s.Spec.ExternalName = corev1.ServiceTypeExternalName, "example.com"
				s.Spec.ClusterIP, s.Spec.ClusterIPs, s.Spec.IPFamilies, s.Spec.IPFamilyPolicy = "", nil, nil, nil
			})
			Expect(service.Spec.ClusterIPs).To(BeEmpty())
			for _, address := range freed {
				expectCools(ctx, address)
			}
		}
	})

	DescribeTable("is steered as any other", func(ctx SpecContext, name string, options []framework.ServiceOption, cidrs ...string) {
		service := c.Create(ctx, framework.NewService("blue", name, options...))
		Expect(service).To(lieIn(cidrs...))
		c.DeleteServices(ctx, service)
		expectCools(ctx, service.Spec.ClusterIPs[0])
	},
		Entry("of a type that is left out", "no-type", []framework.ServiceOption{framework.WithType("")}, range4),
		Entry("with a load balancer in both families", "load-balancer-dual",
			[]framework.ServiceOption{framework.WithType(corev1.ServiceTypeLoadBalancer), framework.PreferDualStack()}, range4, range6),
		Entry("with a node port in IPv6", "node-port-ipv6",
			[]framework.ServiceOption{framework.WithType(corev1.ServiceTypeNodePort), framework.WithFamilies(corev1.IPv6Protocol)}, range6),
		Entry("of two families by their names alone", "two-families",
			[]framework.ServiceOption{framework.WithFamilies(corev1.IPv6Protocol, corev1.IPv4Protocol), framework.PreferDualStack()}, range6, range4),
	)
})
