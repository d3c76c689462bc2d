package chart_test

import (
	"context"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/manifests"
)

// switches are the values of components, and the folders of these.
var switches = map[string]string{
	"certManager": "cert-manager", "history": "history", "networkPolicy": "network-policy", "prometheus": "prometheus", "withoutWebhook": "without-webhook",
}

// overlay renders config/default with components, and config/components/uninstall beside it.
func overlay(ctx context.Context, components []string) manifests.Manifests {
	GinkgoHelper()
	dir := GinkgoT().TempDir()
	relative := func(path string) string {
		GinkgoHelper()
		return suite.Must(filepath.Rel(dir, suite.Must(filepath.Abs(filepath.Join(config, path)))))
	}
	text := "resources: [" + relative("default") + "]\ncomponents:\n"
	for _, component := range components {
		text += "- " + relative("components/"+switches[component]) + "\n"
	}
	Expect(os.WriteFile(dir+"/kustomization.yaml", []byte(text), 0o600)).To(Succeed())
	return append(manifests.Render(ctx, dir), manifests.Render(ctx, config+"/components/uninstall")...)
}

// digest ends the name of the ConfigMap.
var digest = regexp.MustCompile(`(clusterip-operator-manager-config)-[0-9a-z]{10}`)

// alike are objects by kind and name, without that in which Helm and kustomize have to differ:
//
//   - the namespace, which Helm does not make as an object of a chart
//   - who manages objects, of which both write labels, and Helm annotations
//   - how the ConfigMap's digest is made, and in its text comments and the order of fields
func alike(m manifests.Manifests, managedBy string) map[string]any {
	GinkgoHelper()
	all := map[string]any{}
	for _, object := range m {
		if object.GetKind() == "Namespace" {
			continue
		}
		text := string(suite.Must(json.Marshal(object.Object)))
		text = strings.ReplaceAll(text, `"app.kubernetes.io/managed-by":"`+managedBy+`"`, `"app.kubernetes.io/managed-by":""`)
		text = digest.ReplaceAllString(text, "$1")
		var o unstructured.Unstructured
		Expect(json.Unmarshal([]byte(text), &o.Object)).To(Succeed())
		annotations := o.GetAnnotations()
		maps.DeleteFunc(annotations, func(key, _ string) bool { return strings.Contains(key, "helm.sh/") })
		if len(annotations) == 0 {
			annotations = nil
		}
		o.SetAnnotations(annotations)
		if o.GetKind() == "ConfigMap" {
			data := o.Object["data"].(map[string]any)
			var content map[string]any
			Expect(yaml.Unmarshal([]byte(data["config.yaml"].(string)), &content)).To(Succeed())
			data["config.yaml"] = content
		}
		key := o.GetKind() + " " + o.GetNamespace() + "/" + o.GetName()
		Expect(all).NotTo(HaveKey(key))
		all[key] = o.Object
	}
	return all
}

var _ = Describe("The chart renders", Ordered, func() {
	var chart string

	BeforeAll(func(ctx SpecContext) { chart = chartOf(ctx) })

	DescribeTable("what kustomize makes of config/default, object by object", func(ctx SpecContext, components ...string) {
		var flags []string
		for _, component := range components {
			flags = append(flags, "--set=components."+component+"=true")
		}
		got, want := alike(rendered(ctx, chart, flags...), "Helm"), alike(overlay(ctx, components), "kustomize")
		Expect(len(want)).To(BeNumerically(">", 20))
		Expect(cmp.Diff(want, got)).To(BeEmpty())
	},
		Entry("by default"),
		Entry("with cert-manager", "certManager"),
		Entry("with a history", "history"),
		Entry("with network policies", "networkPolicy"),
		Entry("with Prometheus", "prometheus"),
		Entry("without webhooks", "withoutWebhook"),
		Entry("with all that go together", "certManager", "history", "networkPolicy", "prometheus"),
		Entry("with all that go together without webhooks", "history", "networkPolicy", "prometheus", "withoutWebhook"),
	)

	// What Helm does with an object beside installing it is said in annotations.
	It("keeps the kind with its policies, and cleans up after all else is deleted", func(ctx SpecContext) {
		marked := map[string][]string{}
		for _, o := range rendered(ctx, chart, "--set=components.networkPolicy=true") {
			for _, key := range []string{"helm.sh/resource-policy", "helm.sh/hook"} {
				if value := o.GetAnnotations()[key]; value != "" {
					marked[value] = append(marked[value], o.GetKind())
				}
			}
		}
		Expect(marked).To(And(HaveLen(2), HaveKeyWithValue("keep", ConsistOf("CustomResourceDefinition")), HaveKeyWithValue("post-delete", ConsistOf(
			"ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "NetworkPolicy", "Job"))))
	})

	// A namespace may be all digits, which YAML takes for a number.
	It("the same for any namespace", func(ctx SpecContext) {
		flags := []string{"template", "release", chart, "--set=components.certManager=true,components.prometheus=true,components.networkPolicy=true"}
		ours := newAdmin("").helm(ctx, flags...)
		theirs := suite.Must(framework.ReadObjects(newAdmin("").helm(ctx, append(flags, "--namespace=12345")...)))
		quoted := regexp.MustCompile(`(?m): "?clusterip-operator-system"?$`).ReplaceAllString(ours, `: "12345"`)
		want := suite.Must(framework.ReadObjects(strings.ReplaceAll(quoted, "clusterip-operator-system", "12345")))
		Expect(cmp.Diff(want, theirs)).To(BeEmpty())
	})

	It("does what the values say", func(ctx SpecContext) {
		values := filepath.Join(GinkgoT().TempDir(), "values.yaml")
		Expect(os.WriteFile(values, []byte(`
image: `+image+`
imagePullSecrets: [{name: registry}]
replicas: 3
resources: {limits: {memory: 1Gi}}
goMemoryLimit: 920MiB
nodeSelector: {pool: system}
tolerations: [{key: pool, operator: Exists}]
labels: {team: network, "example.com/cost": "12"}
config: {nearlyFull: {freePercent: 20}}
`), 0o600)).To(Succeed())
		m := rendered(ctx, chart, "--values="+values)
		for _, o := range m {
			Expect(o.GetLabels()).To(And(HaveKeyWithValue("team", "network"), HaveKeyWithValue("example.com/cost", "12")), "%s %s", o.GetKind(), o.GetName())
		}
		deployment := manifests.Only[appsv1.Deployment](m, "Deployment")
		Expect(deployment.Spec.Replicas).To(HaveValue(BeEquivalentTo(3)))
		job := manifests.Only[batchv1.Job](m, "Job")
		for _, template := range []corev1.PodTemplateSpec{deployment.Spec.Template, job.Spec.Template} {
			Expect(template.Labels).To(HaveKeyWithValue("team", "network"))
			Expect(template.Spec).To(And(
				HaveField("NodeSelector", And(HaveKeyWithValue("pool", "system"), HaveKeyWithValue("kubernetes.io/os", "linux"))),
				HaveField("Tolerations", ConsistOf(HaveField("Key", "pool"))),
				HaveField("ImagePullSecrets", ConsistOf(HaveField("Name", "registry")))))
			Expect(template.Spec.Containers[0].Image).To(Equal(image))
		}
		container := deployment.Spec.Template.Spec.Containers[0]
		Expect(container.Resources.Limits.Memory().String()).To(Equal("1Gi"))
		Expect(container.Resources.Requests.Memory().String()).To(Equal("128Mi"), "what was not said")
		Expect(container.Env).To(ContainElement(corev1.EnvVar{Name: "GOMEMLIMIT", Value: "920MiB"}))
		configuration := manifests.Only[corev1.ConfigMap](m, "ConfigMap")
		Expect(configuration.Data["config.yaml"]).To(And(ContainSubstring("freePercent: 20"), ContainSubstring("bindAddress: :9443")))
		Expect(configuration.Name).NotTo(Equal(manifests.Only[corev1.ConfigMap](rendered(ctx, chart), "ConfigMap").Name), "or the pods would not roll")
	})

	DescribeTable("no values that it does not know, and says which", func(ctx SpecContext, flag, complaint string) {
		output, err := newAdmin("").try(ctx, "template", "release", chart, flag)
		Expect(err).To(HaveOccurred())
		Expect(output).To(ContainSubstring(complaint))
	},
		Entry("another name", "--set=replicaCount=2", "additional properties 'replicaCount' not allowed"),
		Entry("another component", "--set=components.grafana=true", "at '/components': additional properties 'grafana' not allowed"),
		Entry("a component that is no switch", "--set-string=components.prometheus=yes", "at '/components/prometheus': got string, want boolean"),
		Entry("no replicas", "--set=replicas=0", "at '/replicas': minimum: got 0, want 1"),
		Entry("no value at all", "--set=image=null", "missing property 'image'"),
		Entry("an image with a space", "--set=image=a b", "at '/image': 'a b' does not match pattern"),
		Entry("a digest that is none", "--set=image=a@sha256:12", "at '/image': 'a@sha256:12' does not match pattern"),
		Entry("a memory that is none", "--set=resources.limits.memory=12Q", "at '/resources/limits/memory': '12Q' does not match pattern"),
		Entry("a selector that is no text", "--set=nodeSelector.fast=true", "at '/nodeSelector/fast': got boolean, want string"),
		Entry("an effect that is none", "--set=tolerations[0].effect=Never", "at '/tolerations/0/effect': value must be one of"),
		Entry("a label of the chart's own", `--set=labels.app\.kubernetes\.io/name=x`, "labels: app.kubernetes.io/name is a label that objects of the chart have: choose another key"),
		Entry("a label that is none", "--set=labels.team=a b", "at '/labels/team': 'a b' does not match pattern"),
		Entry("a configuration that is none", "--set=config=text", "at '/config': got string, want object"),
		Entry("two components that exclude one another", "--set=components.certManager=true,components.withoutWebhook=true",
			"components.certManager is for the webhooks that components.withoutWebhook leaves out"),
	)

	It("nothing that Helm's linter complains of", func(ctx SpecContext) {
		Expect(newAdmin("").helm(ctx, "lint", "--strict", chart)).To(ContainSubstring("0 chart(s) failed"))
	})

	It("nothing for a Kubernetes that has no IPAddresses", func(ctx SpecContext) {
		output, err := newAdmin("").try(ctx, "template", "release", chart, "--kube-version=1.32.9")
		Expect(err).To(HaveOccurred())
		Expect(output).To(ContainSubstring("requires kubeVersion: >=1.33.0-0"))
	})

	// docs/reference/values.md is made of the same table; hack/verify.sh holds it against the tree.
	It("and says on Artifact Hub of what it is made", func(ctx SpecContext) {
		var metadata struct {
			Version, AppVersion string
			Annotations         map[string]string
		}
		Expect(yaml.Unmarshal(suite.Must(os.ReadFile(made(ctx, config, "v1.2.3-rc.1", image)+"/clusterip-operator/Chart.yaml")), &metadata)).To(Succeed())
		Expect(metadata.Version + " " + metadata.AppVersion).To(Equal("1.2.3-rc.1 v1.2.3-rc.1"))
		Expect(metadata.Annotations).To(And(HaveKeyWithValue("artifacthub.io/prerelease", "true"), HaveKeyWithValue("artifacthub.io/images", ContainSubstring(image)),
			HaveKeyWithValue("artifacthub.io/crds", ContainSubstring("kind: ServiceCIDRPolicy"))))
		Expect(slices.Sorted(maps.Keys(metadata.Annotations))).To(HaveEach(HavePrefix("artifacthub.io/")))
	})
})
