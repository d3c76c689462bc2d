package controllers_test

import (
	"fmt"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
)

// A mutating webhook is asked before the API server validates, so a tenant that may create Services
// has it look at anything.
var _ = Describe("What a tenant sends", Ordered, func() {
	const four, six = "10.97.0.0/28", "fd00:10:97::/124"

	// close gives the ranges to Services with a label.
	BeforeAll(func(ctx SpecContext) {
		create(ctx, framework.NewServiceCIDR("closed", four, six))
		programmed(ctx, "closed", v1alpha1.ServiceCIDRPolicySpec{
			ServiceCIDRs: []string{"closed"}, Exclusive: true, Enforcement: v1alpha1.EnforcementWebhook, OnFull: v1alpha1.OnFullFail,
			ServiceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"closed": "yes"}},
		})
	})

	// The API server sends 44,000 ports with all their defaults, which is several MiB, and
	// conditions that it throws away afterwards as 75 bytes for each 3 that came.
	DescribeTable("is read however large it is", func(ctx SpecContext, address string, family corev1.IPFamily, enlarge func(*corev1.Service)) {
		stranger := framework.NewService(namespace, "stranger", framework.WithFamilies(family), framework.WithClusterIPs(address))
		enlarge(stranger)
		Expect(admin.Create(ctx, stranger)).To(MatchError(ContainSubstring(`ServiceCIDRPolicy "closed": `)))
	},
		Entry("44,000 ports", "10.97.0.7", corev1.IPv4Protocol, func(s *corev1.Service) {
			s.Spec.Ports = nil
			for port := range int32(44000) {
				s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: fmt.Sprint("p", port+1), Port: port + 1})
			}
		}),
		Entry("30,000 empty owners", "fd00:10:97::7", corev1.IPv6Protocol, func(s *corev1.Service) {
			s.OwnerReferences = slices.Repeat([]metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "p", UID: "u"}}, 30000)
		}),
		// As JSON it is six times as long. internal/webhook reads 40 MiB in its tests.
		Entry("a finalizer of control characters", "10.97.0.8", corev1.IPv4Protocol, func(s *corev1.Service) {
			s.Finalizers = []string{string(slices.Repeat([]byte{1}, 1<<18))}
		}),
		Entry("conditions", "10.97.0.9", corev1.IPv4Protocol, func(s *corev1.Service) {
			s.Status.Conditions = make([]metav1.Condition, 30000)
		}),
	)

	DescribeTable("keeps no address from anybody when it is refused", func(ctx SpecContext, insane func(*corev1.Service)) {
		service := framework.NewService(namespace, "insane", framework.WithLabel("closed", "yes"))
		insane(service)
		err := admin.Create(ctx, service)
		Expect(apierrors.IsInvalid(err) || apierrors.IsForbidden(err)).To(BeTrue(), "by the API server, or by the webhook as too long: %v", err)
		for i := range 13 {
			s := framework.NewService(namespace, fmt.Sprint("tenant-", i), framework.WithLabel("closed", "yes"), framework.RequireDualStack())
			Expect(create(ctx, s).Spec.ClusterIPs).To(inside(four, six))
		}
	},
		Entry("with every address of a range", func(s *corev1.Service) {
			for i := range 4000 {
				s.Spec.ClusterIPs = append(s.Spec.ClusterIPs, fmt.Sprintf("10.97.%d.%d", i/256, i%256), fmt.Sprintf("fd00:10:97::%x", i))
			}
			s.Spec.ClusterIP = s.Spec.ClusterIPs[0]
		}),
		Entry("with 16 of them", func(s *corev1.Service) {
			for i := range 16 {
				s.Spec.ClusterIPs = append(s.Spec.ClusterIPs, fmt.Sprintf("10.97.0.%d", i))
			}
			s.Spec.ClusterIP = s.Spec.ClusterIPs[0]
		}),
		Entry("with 8,000 families", func(s *corev1.Service) {
			s.Spec.IPFamilyPolicy = new(corev1.IPFamilyPolicyPreferDualStack)
			s.Spec.IPFamilies = slices.Repeat([]corev1.IPFamily{corev1.IPv4Protocol}, 8000)
		}),
		Entry("with 16 families", func(s *corev1.Service) {
			s.Spec.IPFamilyPolicy = new(corev1.IPFamilyPolicyPreferDualStack)
			s.Spec.IPFamilies = slices.Repeat([]corev1.IPFamily{corev1.IPv6Protocol}, 16)
		}),
		Entry("with a name that no Service has", func(s *corev1.Service) { s.Name = "a\x1b[2Jb" }),
	)
})
