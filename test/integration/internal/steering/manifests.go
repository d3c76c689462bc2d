package steering

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	sigsyaml "sigs.k8s.io/yaml"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
)

// What config/default installs. The path of the repository is as seen from a suite in test/integration.
const (
	// Repository is the root of this checkout.
	Repository = "../../.."
	// Namespace is where the operator lives.
	Namespace = "clusterip-operator-system"
	// Account is the ServiceAccount of the operator.
	Account = "clusterip-operator-manager"
	// Configuration is the name of both webhook configurations.
	Configuration = "clusterip-operator"
	// Secret holds the certificate, in the operator's namespace.
	Secret = "clusterip-operator-webhook"
)

// webhookTimeout is how many seconds the API server waits for a webhook. See Options.ShippedTimeout.
const webhookTimeout int64 = 10

// webhookKinds are the kinds of the webhook configurations.
var webhookKinds = []string{"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"}

// leftOut are the kinds that do nothing where there are no nodes, or that would take an address. The test installs the CRD itself.
var leftOut = []string{"Deployment", "PodDisruptionBudget", "Service", "CustomResourceDefinition", "ServiceMonitor"}

// Install applies the CRDs and config/default of a checkout, as far as it makes sense without nodes. Webhook configurations are only
// replaced; AddWebhooks is what begins with them. tree is the root of the checkout, empty for ours.
func (b *Bed) Install(ctx context.Context, tree string) {
	GinkgoHelper()
	tree = cmp.Or(tree, Repository)
	Expect(b.InstallCRDsOf(ctx, tree)).To(Succeed())
	objects := render(ctx, tree+"/config/default")
	b.webhooks = slices.DeleteFunc(slices.Clone(objects), func(o unstructured.Unstructured) bool { return !isWebhooks(o) })
	Expect(b.webhooks).To(HaveLen(len(webhookKinds)), "webhook configurations in config/default")
	b.apply(ctx, slices.DeleteFunc(objects, func(o unstructured.Unstructured) bool {
		return isWebhooks(o) || slices.Contains(leftOut, o.GetKind())
	}))
	if b.HasWebhooks(ctx) {
		b.applyWebhooks(ctx)
	}
}

func isWebhooks(o unstructured.Unstructured) bool { return slices.Contains(webhookKinds, o.GetKind()) }

// AddWebhooks applies the webhook configurations of config/default, with URLs that lead to the balancer. The replicas then write their CA
// into them.
func (b *Bed) AddWebhooks(ctx context.Context) {
	GinkgoHelper()
	b.applyWebhooks(ctx)
	if len(b.Replicas()) > 0 {
		b.WaitServing(ctx)
	}
}

func (b *Bed) applyWebhooks(ctx context.Context) {
	GinkgoHelper()
	var redirected []unstructured.Unstructured
	for _, configuration := range b.webhooks {
		Expect(configuration.GetName()).To(Equal(Configuration))
		redirected = append(redirected, b.redirected(configuration))
	}
	b.apply(ctx, redirected)
}

// RemoveWebhooks deletes the webhook configurations, and waits until the API server asks nobody any more.
func (b *Bed) RemoveWebhooks(ctx context.Context) {
	GinkgoHelper()
	configurations := b.Client().AdmissionregistrationV1()
	Expect(configurations.MutatingWebhookConfigurations().Delete(ctx, Configuration, metav1.DeleteOptions{})).To(Succeed())
	Expect(configurations.ValidatingWebhookConfigurations().Delete(ctx, Configuration, metav1.DeleteOptions{})).To(Succeed())
	Eventually(func() bool { return b.asks(ctx) }).WithTimeout(cluster.Patience).WithPolling(200 * time.Millisecond).Should(BeFalse())
}

// WithoutWebhooks does something while the API server asks nobody, and adds the webhooks again whatever comes of it.
func (b *Bed) WithoutWebhooks(ctx context.Context, do func()) {
	GinkgoHelper()
	defer b.AddWebhooks(ctx)
	b.RemoveWebhooks(ctx)
	do()
}

// apply applies objects in the order in which kustomize writes them: a namespace comes before what is in it.
func (b *Bed) apply(ctx context.Context, objects []unstructured.Unstructured) {
	GinkgoHelper()
	var text strings.Builder
	for _, object := range objects {
		document, err := sigsyaml.Marshal(object.Object)
		Expect(err).NotTo(HaveOccurred())
		fmt.Fprintf(&text, "---\n%s", document)
	}
	_, err := framework.KubectlWithInput(ctx, b.Kubeconfig(), text.String(), "apply", "--server-side", "-f", "-")
	Expect(err).NotTo(HaveOccurred())
}

// redirected returns a configuration with the URL of the balancer in place of the Service of each webhook, and the time-out of tests.
func (b *Bed) redirected(rendered unstructured.Unstructured) unstructured.Unstructured {
	GinkgoHelper()
	configuration := rendered.DeepCopy()
	webhooks, _, err := unstructured.NestedSlice(configuration.Object, "webhooks")
	Expect(err).NotTo(HaveOccurred())
	Expect(webhooks).NotTo(BeEmpty())
	for _, webhook := range webhooks {
		config := webhook.(map[string]any)["clientConfig"].(map[string]any)
		path, _, err := unstructured.NestedString(config, "service", "path")
		Expect(err).NotTo(HaveOccurred())
		Expect(path).NotTo(BeEmpty())
		delete(config, "service")
		if !b.shipped {
			webhook.(map[string]any)["timeoutSeconds"] = webhookTimeout
		}
		config["url"] = fmt.Sprintf("https://localhost:%d%s", b.Balancer.Port(), path)
	}
	Expect(unstructured.SetNestedSlice(configuration.Object, webhooks, "webhooks")).To(Succeed())
	return *configuration
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
