package deployment_test

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/manifests"
	"github.com/clusterip-operator/clusterip-operator/test/integration/inventory"
)

// kustomizations are the folders under config/ with a kustomization.yaml; components are separate.
func kustomizations() (kustomizations, components []string) {
	GinkgoHelper()
	Expect(filepath.WalkDir(folder, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Base(path) != "kustomization.yaml" {
			return err
		}
		content, err := os.ReadFile(path)
		if strings.Contains(string(content), "\nkind: Component\n") {
			components = append(components, filepath.Dir(path))
		} else {
			kustomizations = append(kustomizations, filepath.Dir(path))
		}
		return err
	})).To(Succeed())
	return kustomizations, components
}

// overlay writes what an admin writes beside a clone: config/default with patches and components.
func overlay(patches string, components ...string) string {
	GinkgoHelper()
	dir := GinkgoT().TempDir()
	relative := func(path string) string {
		GinkgoHelper()
		absolute := suite.Must(filepath.Abs(path))
		return suite.Must(filepath.Rel(dir, absolute))
	}
	content := "resources:\n- " + relative(defaults) + "\ncomponents:\n"
	for _, component := range components {
		content += "- " + relative(component) + "\n"
	}
	Expect(os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(content+patches), 0o600)).To(Succeed())
	return dir
}

// without leaves components of these names out.
func without(components []string, names ...string) []string {
	return slices.DeleteFunc(slices.Clone(components), func(c string) bool { return slices.Contains(names, filepath.Base(c)) })
}

// Few admins switch most of these on. Each must be as good as the default, which most admins use.
var _ = Describe("Every kustomization", func() {
	expectSound := func(ctx context.Context, path string) {
		GinkgoHelper()
		m := manifests.Render(ctx, path)
		Expect(m).NotTo(BeEmpty(), path)
		for _, object := range m {
			Expect(object.GetName()).NotTo(BeEmpty(), path)
			places := []string{object.GetNamespace()}
			subjects, _, _ := unstructured.NestedSlice(object.Object, "subjects")
			for _, subject := range subjects {
				place, _, _ := unstructured.NestedString(subject.(map[string]any), "namespace")
				places = append(places, place)
			}
			Expect(places).NotTo(ContainElement("system"), "%s: a namespace that is only a place holder", path)
		}
	}

	It("renders, by itself or as a component of config/default", func(ctx SpecContext) {
		all, components := kustomizations()
		Expect(len(all)).To(BeNumerically(">=", 6))
		Expect(len(components)).To(BeNumerically(">=", 3))
		for _, path := range without(all, "manager", "rbac") { // these are the halves of config/default, which places them
			expectSound(ctx, path)
		}
		for _, component := range components {
			expectSound(ctx, overlay("", component))
		}
	})

	// Rendering knows no types. The samples are applied elsewhere: their namespace has to exist.
	It("is taken by the API server with all its fields", func(ctx SpecContext) {
		_, components := kustomizations()
		components = without(components, "prometheus", "proxyagent-prometheus", "cert-manager") // need the CRDs of other projects
		withWebhooks := without(components, "without-webhook", "service-cluster-ip-range")
		for _, path := range []string{overlay("", components...), overlay("", withWebhooks...), uninstall} {
			c.Kubectl(ctx, "apply", "--server-side", "--dry-run=server", "--validate=strict", "-k", path)
		}
	})
})

// Admins and GitOps tools apply the manifests again and again. Each change of an object would roll
// out pods or alarm an admin.
var _ = DescribeTable("Applying a second time changes nothing", func(ctx SpecContext, kustomization string) {
	settled := func() inventory.Objects {
		GinkgoHelper()
		ctx, cancel := context.WithTimeout(ctx, cluster.Timeout)
		defer cancel()
		return suite.Must(inventory.Settled(ctx, c.AdminConfig()))
	}
	// The samples' ranges take a moment to reach the API server, then their fixed addresses are taken.
	Eventually(func() error {
		_, err := framework.Kubectl(ctx, c.Kubeconfig(), "apply", "--server-side", "-k", kustomization)
		return err
	}).WithPolling(time.Second).Should(Succeed())
	before := settled()
	c.Kustomize(ctx, kustomization)
	Expect(before.Changes(settled())).To(BeEmpty())
},
	Entry("of config/default", defaults),
	Entry("of config/samples", folder+"/samples"),
)

// The namespace admits only the level "restricted" of the Pod Security Standards. The API server
// checks pods, not Deployments: one that breaks the level is accepted and never runs. Refused pods
// prove that the namespace is guarded and that each line of the security contexts is needed.
var _ = DescribeTable("A pod in our namespace", func(ctx SpecContext, spoil func(*corev1.PodSpec)) {
	for _, template := range []corev1.PodTemplateSpec{
		manifests.Only[appsv1.Deployment](manifests.Render(ctx, defaults), "Deployment").Spec.Template,
		manifests.Only[batchv1.Job](manifests.Render(ctx, uninstall), "Job").Spec.Template,
	} {
		Expect(manifests.Admit(ctx, c.Client(), cluster.OperatorNamespace, template)).To(Succeed())
		spoil(&template.Spec)
		Expect(manifests.Admit(ctx, c.Client(), cluster.OperatorNamespace, template)).
			To(MatchError(ContainSubstring(`violates PodSecurity "restricted:latest"`)))
	}
},
	Entry("is refused if it is privileged", func(s *corev1.PodSpec) {
		s.Containers[0].SecurityContext = &corev1.SecurityContext{Privileged: new(true)}
	}),
	Entry("is refused if it may run as root", func(s *corev1.PodSpec) { s.SecurityContext.RunAsNonRoot = nil }),
	Entry("is refused without a seccomp profile", func(s *corev1.PodSpec) { s.SecurityContext.SeccompProfile = nil }),
	Entry("is refused if it may gain privileges", func(s *corev1.PodSpec) { s.Containers[0].SecurityContext.AllowPrivilegeEscalation = nil }),
	Entry("is refused if it keeps capabilities", func(s *corev1.PodSpec) { s.Containers[0].SecurityContext.Capabilities = nil }),
	Entry("is refused in the network of its node", func(s *corev1.PodSpec) { s.HostNetwork = true }),
)

// No network plugin enforces anything here: what is looked at is what the manifests say.
var _ = Describe("The NetworkPolicy of the manager", func() {
	policyOf := func(m manifests.Manifests) networkingv1.NetworkPolicySpec {
		GinkgoHelper()
		return manifests.Named[networkingv1.NetworkPolicy](m, "NetworkPolicy", "clusterip-operator-manager").Spec
	}

	It("selects its pods, and opens the ports that they serve and no others", func(ctx SpecContext) {
		m := manifests.Render(ctx, defaults)
		policy, pod := policyOf(m), manifests.Only[appsv1.Deployment](m, "Deployment").Spec.Template
		selector := suite.Must(metav1.LabelSelectorAsSelector(&policy.PodSelector))
		Expect(selector.Matches(labels.Set(pod.Labels))).To(BeTrue())
		Expect(policy.PolicyTypes).To(ConsistOf(networkingv1.PolicyTypeIngress))
		var served, open []int32
		for _, port := range pod.Spec.Containers[0].Ports {
			served = append(served, port.ContainerPort)
		}
		for _, rule := range policy.Ingress {
			Expect(rule.From).To(BeEmpty(), "a source that is missing switches steering off")
			for _, port := range rule.Ports {
				open = append(open, port.Port.IntVal)
			}
		}
		Expect(open).To(ConsistOf(served))
	})

	It("lets, with the component, labelled namespaces alone read metrics, and replicas reach one another", func(ctx SpecContext) {
		policy := policyOf(manifests.Render(ctx, overlay("", folder+"/components/network-policy")))
		Expect(policy.PolicyTypes).To(ConsistOf(networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress))
		Expect(policy.Ingress).To(ContainElement(And(
			HaveField("Ports", ConsistOf(HaveField("Port.IntVal", int32(8443)))),
			HaveField("From", ConsistOf(HaveField("NamespaceSelector.MatchLabels", HaveKeyWithValue("metrics", "enabled")))))))
		Expect(policy.Egress).To(ContainElement(And(
			HaveField("To", ConsistOf(HaveField("PodSelector.MatchLabels", HaveKeyWithValue("app.kubernetes.io/component", "manager")))),
			HaveField("Ports", ConsistOf(HaveField("Port.IntVal", int32(9443)))))))
	})

	// The patch stands in a comment of the manifest, for admins to take.
	It("is closed to all but API servers and replicas by the patch that it shows", func(ctx SpecContext) {
		text := suite.Must(os.ReadFile(filepath.Join(folder, "base/network_policy.yaml")))
		_, shown, _ := strings.Cut(string(text), "#   patches:\n")
		shown, _, _ = strings.Cut(shown, "apiVersion:")
		dir := overlay("\npatches:\n" + strings.ReplaceAll(shown, "#   ", ""))
		rule := policyOf(manifests.Render(ctx, dir)).Ingress[0]
		Expect(rule.Ports).To(ConsistOf(HaveField("Port.IntVal", int32(9443))))
		Expect(rule.From).To(HaveLen(3))
		c.Kubectl(ctx, "apply", "--server-side", "--dry-run=server", "--validate=strict", "-k", dir)
	})
})

// yamlBlock is one of a page; its lines may be indented, as those of a list are.
var yamlBlock = regexp.MustCompile("(?ms)^( *)```yaml\n(.*?)^ *```$")

// platform returns the section of docs/platforms.md with this heading.
func platform(name string) string {
	GinkgoHelper()
	page := string(suite.Must(os.ReadFile("../../../docs/platforms.md")))
	_, section, found := strings.Cut(page, "\n## "+name+"\n")
	Expect(found).To(BeTrue(), name)
	section, _, _ = strings.Cut(section, "\n## ")
	return section
}

// No test runs on these platforms. What can be known here: that an overlay does what the page says.
var _ = Describe("docs/platforms.md", func() {
	// names are the objects that differ.
	names := func(changed, from manifests.Manifests) (all []string) {
		for i, object := range changed {
			Expect(object.GetName()).To(Equal(from[i].GetName()))
			if !equality.Semantic.DeepEqual(object.Object, from[i].Object) {
				all = append(all, object.GetKind())
			}
		}
		return all
	}
	deployed := func(m manifests.Manifests) corev1.PodTemplateSpec {
		GinkgoHelper()
		return manifests.Only[appsv1.Deployment](m, "Deployment").Spec.Template
	}

	DescribeTable("shows an overlay that config/default takes", func(ctx SpecContext, name string, kinds []string, look func(context.Context, manifests.Manifests)) {
		blocks := yamlBlock.FindAllStringSubmatch(platform(name), -1)
		Expect(blocks).To(HaveLen(1))
		dir := overlay("\n" + regexp.MustCompile("(?m)^"+blocks[0][1]).ReplaceAllString(blocks[0][2], ""))
		m := manifests.Render(ctx, dir)
		Expect(names(m, manifests.Render(ctx, defaults))).To(ConsistOf(kinds), "what it changes")
		c.Kubectl(ctx, "apply", "--server-side", "--force-conflicts", "--dry-run=server", "--validate=strict", "-k", dir)
		look(ctx, m)
	},
		Entry("on EKS: the network of the node, and a namespace that admits it", "EKS", []string{"Deployment", "Namespace"}, func(ctx context.Context, m manifests.Manifests) {
			template := deployed(m)
			Expect(template.Spec.HostNetwork).To(BeTrue())
			Expect(manifests.Admit(ctx, c.Client(), cluster.OperatorNamespace, template)).To(MatchError(ContainSubstring("host namespaces (hostNetwork=true)")))
			c.CreateNamespace(ctx, "eks", manifests.Only[corev1.Namespace](m, "Namespace").Labels)
			Expect(manifests.Admit(ctx, c.Client(), "eks", template)).To(Succeed())
		}),
		Entry("on GKE: no webhook asks about Services of kube-system, and those about the rest are the same", "GKE", []string{"MutatingWebhookConfiguration"}, func(ctx context.Context, m manifests.Manifests) {
			asked := func(m manifests.Manifests, namespace string) (webhooks []string) {
				GinkgoHelper()
				mutating, _ := configurationsOf(m)
				for _, w := range mutating.Webhooks {
					selector := labels.Everything() // what the API server makes of none
					if w.NamespaceSelector != nil {
						selector = suite.Must(metav1.LabelSelectorAsSelector(w.NamespaceSelector))
					}
					if selector.Matches(labels.Set{corev1.LabelMetadataName: namespace}) {
						webhooks = append(webhooks, w.Name)
					}
				}
				return webhooks
			}
			before := manifests.Render(ctx, defaults)
			for _, namespace := range []string{"kube-system", "kube-node-lease"} {
				Expect(asked(before, namespace)).NotTo(BeEmpty())
				Expect(asked(m, namespace)).To(BeEmpty())
			}
			for _, namespace := range []string{"default", "shop"} {
				Expect(asked(before, namespace)).To(HaveLen(2))
				Expect(asked(m, namespace)).To(Equal(asked(before, namespace)))
			}
		}),
		Entry("on OpenShift: any user but root", "OpenShift", []string{"Deployment"}, func(ctx context.Context, m manifests.Manifests) {
			template := deployed(m)
			Expect(*template.Spec.SecurityContext).To(And(HaveField("RunAsUser", BeNil()), HaveField("RunAsGroup", BeNil()), HaveField("RunAsNonRoot", HaveValue(BeTrue()))))
			Expect(*template.Spec.Containers[0].SecurityContext).To(And(HaveField("RunAsUser", BeNil()), HaveField("RunAsGroup", BeNil())))
			Expect(manifests.Admit(ctx, c.Client(), cluster.OperatorNamespace, template)).To(Succeed())
		}),
	)

	It("has no overlay that is not looked at", func() {
		page := string(suite.Must(os.ReadFile("../../../docs/platforms.md")))
		overlays := slices.DeleteFunc(yamlBlock.FindAllString(page, -1), func(block string) bool { return !strings.Contains(block, "patches:") })
		Expect(overlays).To(HaveLen(3))
	})
})
