package steering

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	sigsyaml "sigs.k8s.io/yaml"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
)

// What config/default installs. The folder is as seen from a suite in test/integration.
const (
	defaults = "../../../config/default"
	// Namespace is where the operator lives.
	Namespace = "clusterip-operator-system"
	// Account is the ServiceAccount of the operator.
	Account = "clusterip-operator-manager"
	// Configuration is the name of both webhook configurations.
	Configuration = "clusterip-operator"
)

// webhookKinds are the kinds of the webhook configurations.
var webhookKinds = []string{"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"}

// leftOut are the kinds that do nothing where there are no nodes, or that would take an address. The test installs the CRD itself.
var leftOut = []string{"Deployment", "PodDisruptionBudget", "Service", "CustomResourceDefinition", "ServiceMonitor"}

// install applies config/default as far as it makes sense without nodes, with webhooks that lead to the balancer.
func (b *Bed) install(ctx context.Context) {
	GinkgoHelper()
	objects := slices.DeleteFunc(render(ctx, defaults), func(o unstructured.Unstructured) bool {
		return slices.Contains(leftOut, o.GetKind())
	})
	var found []string
	var text strings.Builder
	for _, object := range objects {
		if slices.Contains(webhookKinds, object.GetKind()) {
			Expect(object.GetName()).To(Equal(Configuration))
			b.redirect(&object)
			found = append(found, object.GetKind())
		}
		document, err := sigsyaml.Marshal(object.Object)
		Expect(err).NotTo(HaveOccurred())
		fmt.Fprintf(&text, "---\n%s", document)
	}
	Expect(found).To(ConsistOf(webhookKinds), "config/default")
	// A namespace comes before what is in it: this is the order in which kustomize writes.
	_, err := framework.KubectlWithInput(ctx, b.Kubeconfig(), text.String(), "apply", "--server-side", "-f", "-")
	Expect(err).NotTo(HaveOccurred())
}

// redirect replaces the Service of each webhook by the URL of the balancer.
func (b *Bed) redirect(configuration *unstructured.Unstructured) {
	GinkgoHelper()
	webhooks, _, err := unstructured.NestedSlice(configuration.Object, "webhooks")
	Expect(err).NotTo(HaveOccurred())
	Expect(webhooks).NotTo(BeEmpty())
	for _, webhook := range webhooks {
		config := webhook.(map[string]any)["clientConfig"].(map[string]any)
		path, _, err := unstructured.NestedString(config, "service", "path")
		Expect(err).NotTo(HaveOccurred())
		Expect(path).NotTo(BeEmpty())
		delete(config, "service")
		config["url"] = fmt.Sprintf("https://localhost:%d%s", b.Balancer.Port(), path)
	}
	Expect(unstructured.SetNestedSlice(configuration.Object, webhooks, "webhooks")).To(Succeed())
}

// render is what `kubectl kustomize` makes of a folder.
func render(ctx context.Context, folder string) (all []unstructured.Unstructured) {
	GinkgoHelper()
	text, err := framework.Kubectl(ctx, "", "kustomize", folder)
	Expect(err).NotTo(HaveOccurred())
	documents := yaml.NewYAMLReader(bufio.NewReader(strings.NewReader(text)))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return all
		}
		Expect(err).NotTo(HaveOccurred())
		object := unstructured.Unstructured{}
		Expect(yaml.Unmarshal(document, &object.Object)).To(Succeed())
		all = append(all, object)
	}
}
