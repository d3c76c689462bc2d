package deployment_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The namespace admits what the level "restricted" of the Pod Security Standards admits. The API server checks pods, not
// Deployments: one that breaks the level is accepted and never runs.
var _ = Describe("A pod in our namespace", func() {
	templates := func(ctx context.Context) map[string]corev1.PodTemplateSpec {
		GinkgoHelper()
		return map[string]corev1.PodTemplateSpec{
			"the manager":   only[appsv1.Deployment](render(ctx, defaults), "Deployment").Spec.Template,
			"the uninstall": only[batchv1.Job](render(ctx, uninstall), "Job").Spec.Template,
		}
	}
	admit := func(ctx context.Context, template corev1.PodTemplateSpec) error {
		pod := &corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
		pod.GenerateName = "try-"
		_, err := c.Client().CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}

	It("is admitted if it is one of ours", func(ctx SpecContext) {
		for name, template := range templates(ctx) {
			Expect(admit(ctx, template)).To(Succeed(), name)
		}
	})

	// The proof that the namespace is guarded at all, and that no line of the security contexts is idle.
	DescribeTable("is refused", func(ctx SpecContext, spoil func(*corev1.PodSpec)) {
		for name, template := range templates(ctx) {
			spoil(&template.Spec)
			Expect(admit(ctx, template)).To(MatchError(ContainSubstring(`violates PodSecurity "restricted:latest"`)), name)
		}
	},
		Entry("if it is privileged", func(s *corev1.PodSpec) {
			s.Containers[0].SecurityContext = &corev1.SecurityContext{Privileged: new(true)}
		}),
		Entry("if it may run as root", func(s *corev1.PodSpec) { s.SecurityContext.RunAsNonRoot = nil }),
		Entry("without a seccomp profile", func(s *corev1.PodSpec) { s.SecurityContext.SeccompProfile = nil }),
		Entry("if it may gain privileges", func(s *corev1.PodSpec) { s.Containers[0].SecurityContext.AllowPrivilegeEscalation = nil }),
		Entry("if it keeps capabilities", func(s *corev1.PodSpec) { s.Containers[0].SecurityContext.Capabilities = nil }),
		Entry("in the network of its node", func(s *corev1.PodSpec) { s.HostNetwork = true }),
	)
})
