package steering_test

import (
	"context"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/steering"
)

// A tenant whose Services get addresses in a range of their own and nowhere else. Freed addresses rest, by which one sees that they were freed.
var _ = inOrder("A Service of a tenant", func() {
	const range4, range6 = "10.110.0.0/25", "fd00:110::/121"

	BeforeAll(func(ctx SpecContext) {
		bed.OfferRange(ctx, "blue", nil, range4, range6)
		bed.Program(ctx, "blue", steering.From("blue"), steering.ForNamespaces("tenant", "blue"), steering.Exclusive(), steering.OrFail(), steering.CoolsDown(time.Hour))
	})
	AfterEach(func(ctx SpecContext) { bed.ExpectConsistent(ctx) })

	expectFreed := func(ctx context.Context, address string) {
		GinkgoHelper()
		Eventually(func() string { return bed.Purpose(ctx, address) }).WithTimeout(soon).Should(Equal(steering.Cooling), address)
	}
	rangeOf := map[corev1.IPFamily]string{corev1.IPv4Protocol: range4, corev1.IPv6Protocol: range6}
	other := map[corev1.IPFamily]corev1.IPFamily{corev1.IPv4Protocol: corev1.IPv6Protocol, corev1.IPv6Protocol: corev1.IPv4Protocol}

	DescribeTable("gets a second family and loses it again", func(ctx SpecContext, first corev1.IPFamily, policy corev1.IPFamilyPolicy, byFamilies bool) {
		service := bed.Create(ctx, single("blue", fmt.Sprintf("convert-%s-%s-%t", lower(first), lower(corev1.IPFamily(policy)), byFamilies), first))
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
			Eventually(func() string { return bed.Owner(ctx, secondary) }).WithTimeout(soon).Should(Equal("blue/" + service.Name))

			service = change(ctx, service, func(s *corev1.Service) {
				s.Spec.IPFamilyPolicy = new(corev1.IPFamilyPolicySingleStack)
				if byFamilies {
					s.Spec.IPFamilies, s.Spec.ClusterIPs = []corev1.IPFamily{first}, []string{primary}
				}
			})
			Expect(service.Spec.ClusterIPs).To(Equal([]string{primary}))
			expectFreed(ctx, secondary)
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
		bed.OfferRange(ctx, "tight", nil, "10.110.1.0/28", "fd00:110:1::/126")
		bed.Program(ctx, "tight", steering.From("tight"), steering.ForNamespaces("tenant", "green"), steering.Exclusive(), steering.OrFail())
		var last *corev1.Service
		for i := range 4 {
			last = bed.Create(ctx, single("green", fmt.Sprintf("tight-%d", i), corev1.IPv4Protocol))
			if i < 3 {
				change(ctx, last, func(s *corev1.Service) { s.Spec.IPFamilyPolicy = new(corev1.IPFamilyPolicyRequireDualStack) })
			}
		}
		_, err := tryChange(ctx, last, func(s *corev1.Service) { s.Spec.IPFamilyPolicy = new(corev1.IPFamilyPolicyRequireDualStack) })
		Expect(steering.ExpectRefusal(err, "tight")).To(ContainSubstring("IPv6"))
		_, err = tryChange(ctx, last, func(s *corev1.Service) {
			s.Spec.IPFamilyPolicy, s.Spec.ClusterIPs = new(corev1.IPFamilyPolicyRequireDualStack), []string{last.Spec.ClusterIP, "fd00:110::77"}
		})
		steering.ExpectRefusal(err, "blue")
		change(ctx, last, func(s *corev1.Service) { s.Labels = map[string]string{"as": "ever"} })
		bed.ExpectNothingLeaked(ctx)
	})

	It("gets addresses when it is an alias no more, and frees them when it becomes one", func(ctx SpecContext) {
		service := bed.Create(ctx, framework.NewService("blue", "alias", framework.ExternalName("example.com")))
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
				expectFreed(ctx, address)
			}
		}
	})

	DescribeTable("is steered as any other", func(ctx SpecContext, name string, option framework.ServiceOption, cidrs ...string) {
		service := bed.Create(ctx, framework.NewService("blue", name, option))
		Expect(service).To(lieIn(cidrs...))
		if len(cidrs) > 0 {
			bed.DeleteServices(ctx, service)
			expectFreed(ctx, service.Spec.ClusterIPs[0])
		}
	},
		Entry("of the default family", "default-family", framework.WithType(corev1.ServiceTypeClusterIP), range4),
		Entry("of a type that is left out", "no-type", framework.WithType(""), range4),
		Entry("with a node port", "node-port", framework.WithType(corev1.ServiceTypeNodePort), range4),
		Entry("with a load balancer", "load-balancer", framework.WithType(corev1.ServiceTypeLoadBalancer), range4),
		Entry("with a load balancer in both families", "load-balancer-dual", both(framework.WithType(corev1.ServiceTypeLoadBalancer), framework.PreferDualStack()), range4, range6),
		Entry("with a node port in IPv6", "node-port-ipv6", both(framework.WithType(corev1.ServiceTypeNodePort), framework.WithFamilies(corev1.IPv6Protocol)), range6),
		Entry("of two families by their names alone", "two-families", both(framework.WithFamilies(corev1.IPv6Protocol, corev1.IPv4Protocol), framework.PreferDualStack()), range6, range4),
	)

	It("keeps its addresses through all types", func(ctx SpecContext) {
		service := bed.Create(ctx, dual("blue", "changing"))
		addresses := service.Spec.ClusterIPs
		for _, kind := range []corev1.ServiceType{corev1.ServiceTypeNodePort, corev1.ServiceTypeLoadBalancer, corev1.ServiceTypeClusterIP} {
			Expect(change(ctx, service, func(s *corev1.Service) { s.Spec.Type = kind }).Spec.ClusterIPs).To(Equal(addresses), string(kind))
		}
	})

	It("is left alone when it is headless or an alias", func(ctx SpecContext) {
		filled := bed.Decisions(ctx, steering.Filled)
		headless := bed.Create(ctx, framework.NewService("blue", "headless", framework.Headless()))
		Expect(headless.Spec.ClusterIPs).To(Equal([]string{corev1.ClusterIPNone}))
		without := framework.NewService("blue", "headless-dual", framework.Headless(), framework.RequireDualStack())
		without.Spec.Selector = map[string]string{"app": "web"}
		created := bed.Create(ctx, without)
		Expect(created.Spec.ClusterIPs).To(Equal([]string{corev1.ClusterIPNone}))
		Expect(created.Spec.IPFamilies).To(HaveLen(2))
		change(ctx, created, func(s *corev1.Service) {
			s.Spec.IPFamilyPolicy, s.Spec.IPFamilies = new(corev1.IPFamilyPolicySingleStack), nil
		})
		change(ctx, created, func(s *corev1.Service) { s.Spec.IPFamilyPolicy = new(corev1.IPFamilyPolicyPreferDualStack) })
		bed.Create(ctx, framework.NewService("blue", "only-alias", framework.ExternalName("example.com")))
		Expect(bed.Decisions(ctx, steering.Filled)).To(Equal(filled))
		bed.ExpectNothingLeaked(ctx)
	})

	// Deleted and created at once, with the addresses that it had.
	It("keeps its addresses when it is replaced by force", func(ctx SpecContext) {
		service := bed.Create(ctx, dual("blue", "replaced"))
		for i := range 5 {
			again := asking("blue", "replaced", service.Spec.ClusterIPs...)
			again.Labels = map[string]string{"round": fmt.Sprint(i)}
			_, err := framework.KubectlWithInput(ctx, bed.Kubeconfig(), manifest(again), "replace", "--force", "-f", "-")
			Expect(err).NotTo(HaveOccurred())
			for _, address := range service.Spec.ClusterIPs {
				Eventually(func() string { return bed.Owner(ctx, address) }).WithTimeout(soon).Should(Equal("blue/replaced"))
			}
		}
	})

	It("gets others when it is replaced without asking for its own", func(ctx SpecContext) {
		service := bed.Create(ctx, dual("blue", "replaced-anew"))
		again := recreate(ctx, service, dual("blue", "replaced-anew"))
		Expect(again).To(lieIn(range4, range6))
		Expect(again.Spec.ClusterIPs).NotTo(ContainElement(BeElementOf(service.Spec.ClusterIPs)), "these cool down")
	})

	// Helm uninstalls and installs a release: many Services of the same names, deleted and created as fast as it goes.
	It("comes back with its release", func(ctx SpecContext) {
		release := func(i int) *corev1.Service {
			return dual("blue", fmt.Sprintf("release-%d", i), framework.WithLabel("app.kubernetes.io/managed-by", "Helm"))
		}
		for range 4 {
			services := bed.CreateServices(ctx, 10, release)
			Expect(services).To(HaveEach(lieIn(range4, range6)))
			bed.DeleteServices(ctx, services...)
		}
		bed.ExpectNothingLeaked(ctx)
	})

	It("may leave its name to the API server", func(ctx SpecContext) {
		services := bed.CreateServices(ctx, 20, func(int) *corev1.Service {
			service := dual("blue", "")
			service.GenerateName = "generated-"
			return service
		})
		Expect(services).To(HaveEach(lieIn(range4, range6)))
		bed.ExpectNothingLeaked(ctx)
		bed.DeleteServices(ctx, services...)
		for _, service := range services {
			expectFreed(ctx, service.Spec.ClusterIPs[0])
		}
	})

	// The status says what the objects say.
	It("is counted once, whatever it went through", func(ctx SpecContext) {
		Eventually(func(g Gomega) {
			used := 0
			for _, service := range bed.Services(ctx) {
				used += len(steering.In(range4, &service)) + len(steering.In(range6, &service))
			}
			status := bed.Policy(ctx, "blue").Status.Summary
			g.Expect(status).To(Equal(v1alpha1.PolicySummary{Ranges: 2, BandStatus: v1alpha1.BandStatus{
				Size: 126 + 127, Used: int64(used), Cooling: int64(len(bed.KeptBy(ctx, "blue"))), Free: int64(126 + 127 - used - len(bed.KeptBy(ctx, "blue"))),
			}}))
		}).WithTimeout(cluster.Patience).Should(Succeed())
	})
})

// both is two options in one.
func both(options ...framework.ServiceOption) framework.ServiceOption {
	return func(s *corev1.Service) {
		for _, option := range options {
			option(s)
		}
	}
}
