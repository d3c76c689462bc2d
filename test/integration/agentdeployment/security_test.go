package agentdeployment_test

import (
	"context"
	"regexp"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/manifests"
)

// A proxy cannot keep the level "restricted" of the Pod Security Standards. This lists all that it
// breaks, in the words of the API server; it keeps everything else.
var _ = Describe("A pod of the agent", Ordered, func() {
	const guarded = "guarded"
	violations := regexp.MustCompile(`violates PodSecurity "restricted:latest": (.*)`)

	BeforeAll(func(ctx SpecContext) {
		c.CreateNamespace(ctx, guarded, map[string]string{"pod-security.kubernetes.io/enforce": "restricted"})
		subject := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: account}}
		_, err := c.Client().CoreV1().ServiceAccounts(guarded).Create(ctx, subject, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
	})

	// admit asks for the pod of a kustomization.
	admit := func(ctx context.Context, namespace, kustomization string) error {
		GinkgoHelper()
		return manifests.Admit(ctx, c.Client(), namespace, podOf(manifests.Render(ctx, kustomization)))
	}
	broken := func(ctx context.Context, kustomization string) []string {
		GinkgoHelper()
		err := admit(ctx, guarded, kustomization)
		Expect(err).To(HaveOccurred())
		found := violations.FindStringSubmatch(err.Error())
		Expect(found).NotTo(BeNil(), err.Error())
		return strings.Split(strings.ReplaceAll(found[1], `"`, ""), "), ")
	}

	It("is admitted in kube-system", func(ctx SpecContext) {
		for _, path := range []string{base, beside, replace, uninstall} {
			Expect(admit(ctx, namespace, path)).To(Succeed(), path)
		}
	})

	It("breaks the restricted level where it must, and nowhere else", func(ctx SpecContext) {
		network := HavePrefix("host namespaces (hostNetwork=true")
		capabilities := HavePrefix("unrestricted capabilities (container proxyagent must not include NET_ADMIN, NET_RAW in")
		root := ConsistOf(network, capabilities,
			HavePrefix("restricted volume types (volumes xtables-lock, run, proc-sys-net use restricted volume type hostPath"),
			HavePrefix("probe or lifecycle host (container proxyagent uses probe or lifecycle host 127.0.0.1"), // its own node
			HavePrefix("runAsNonRoot != true"),
			HavePrefix("runAsUser=0 (pod must not set runAsUser=0"),
		)
		for _, path := range []string{base, beside, replace} {
			Expect(broken(ctx, path)).To(root, path)
		}
	})

	It("has of its node the lock of iptables and the settings of the network, where it looks for them", func(ctx SpecContext) {
		for _, path := range []string{base, beside, replace} {
			pod := podOf(manifests.Render(ctx, path)).Spec
			paths := map[string]string{}
			for _, volume := range pod.Volumes {
				if volume.HostPath != nil {
					paths[volume.Name] = volume.HostPath.Path
				}
			}
			Expect(paths).To(Equal(map[string]string{"xtables-lock": "/run/xtables.lock", "run": "/run/clusterip-proxyagent", "proc-sys-net": "/proc/sys/net"}))
			agent := pod.Containers[0]
			Expect(*agent.SecurityContext.ReadOnlyRootFilesystem).To(BeTrue())
			Expect(agent.Args).To(ContainElement("--sysctl-root=/host/proc/sys"))
			Expect(agent.VolumeMounts).To(ContainElement(corev1.VolumeMount{Name: "proc-sys-net", MountPath: "/host/proc/sys/net"}))
		}
	})

	It("runs on every Linux node, and is the last to go", func(ctx SpecContext) {
		spec := manifests.Only[appsv1.DaemonSet](manifests.Render(ctx, base), "DaemonSet").Spec
		Expect(spec.Template.Spec.Tolerations).To(ConsistOf(corev1.Toleration{Operator: corev1.TolerationOpExists}))
		Expect(spec.Template.Spec.NodeSelector).To(Equal(map[string]string{"kubernetes.io/os": "linux"}))
		Expect(spec.Template.Spec.PriorityClassName).To(Equal("system-node-critical"))
		Expect(spec.Template.Spec.DNSPolicy).To(Equal(corev1.DNSDefault))
		Expect(spec.UpdateStrategy.RollingUpdate.MaxUnavailable.String()).To(Equal("10%"))
		Expect(agentOf(manifests.Render(ctx, base)).Resources.Limits).To(BeEmpty())
	})
})
