package deployment_test

import (
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// No network plugin enforces anything here: what is looked at is what the manifests say.
var _ = Describe("The NetworkPolicy of the manager", func() {
	const policyName = "clusterip-operator-manager"

	It("selects its pods, and opens the ports that they serve and no others", func(ctx SpecContext) {
		m := render(ctx, defaults)
		policy, pod := named[networkingv1.NetworkPolicy](m, "NetworkPolicy", policyName), only[appsv1.Deployment](m, "Deployment").Spec.Template
		selector, err := metav1.LabelSelectorAsSelector(&policy.Spec.PodSelector)
		Expect(err).NotTo(HaveOccurred())
		Expect(selector.Matches(labels.Set(pod.Labels))).To(BeTrue())
		Expect(policy.Namespace).To(Equal(namespace))
		Expect(policy.Spec.PolicyTypes).To(ConsistOf(networkingv1.PolicyTypeIngress))
		var served, open []int32
		for _, port := range pod.Spec.Containers[0].Ports {
			served = append(served, port.ContainerPort)
		}
		for _, rule := range policy.Spec.Ingress {
			Expect(rule.From).To(BeEmpty(), "a source that is missing switches steering off")
			for _, port := range rule.Ports {
				open = append(open, port.Port.IntVal)
			}
		}
		Expect(open).To(ConsistOf(served))
	})

	It("lets, with the component, labelled namespaces alone read metrics, and replicas reach one another", func(ctx SpecContext) {
		policy := named[networkingv1.NetworkPolicy](render(ctx, overlay(filepath.Join(folder, "components/network-policy"))), "NetworkPolicy", policyName)
		Expect(policy.Spec.PolicyTypes).To(ConsistOf(networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress))
		for _, rule := range policy.Spec.Ingress {
			if rule.Ports[0].Port.IntVal == 8443 {
				Expect(rule.From).To(ConsistOf(HaveField("NamespaceSelector.MatchLabels", HaveKeyWithValue("metrics", "enabled"))))
			}
		}
		Expect(policy.Spec.Egress).To(ContainElement(And(
			HaveField("To", ConsistOf(HaveField("PodSelector.MatchLabels", HaveKeyWithValue("app.kubernetes.io/component", "manager")))),
			HaveField("Ports", ConsistOf(HaveField("Port.IntVal", int32(9443)))))))
	})

	// The patch stands in a comment of the manifest, for admins to take.
	It("is closed to all but API servers and replicas by the patch that it shows", func(ctx SpecContext) {
		text, err := os.ReadFile(filepath.Join(folder, "base/network_policy.yaml"))
		Expect(err).NotTo(HaveOccurred())
		_, shown, _ := strings.Cut(string(text), "#   patches:\n")
		shown, _, _ = strings.Cut(shown, "apiVersion:")
		dir := overlay()
		file := filepath.Join(dir, "kustomization.yaml")
		kustomization, err := os.ReadFile(file)
		Expect(err).NotTo(HaveOccurred())
		Expect(os.WriteFile(file, []byte(string(kustomization)+"\npatches:\n"+strings.ReplaceAll(shown, "#   ", "")), 0o600)).To(Succeed())

		rule := named[networkingv1.NetworkPolicy](render(ctx, dir), "NetworkPolicy", policyName).Spec.Ingress[0]
		Expect(rule.Ports).To(ConsistOf(HaveField("Port.IntVal", int32(9443))))
		Expect(rule.From).To(HaveLen(3))
		kubectl(ctx, c, "apply", "--server-side", "--dry-run=server", "--validate=strict", "-k", dir)
	})
})
