package cluster

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/manifests"
)

// What config/default installs. The repository's path is as seen from a suite in test/integration.
const (
	// Repository is the root of this checkout.
	Repository = "../../.."
	// OperatorNamespace is where the operator lives, OperatorAccount its ServiceAccount there.
	OperatorNamespace = "clusterip-operator-system"
	OperatorAccount   = "clusterip-operator-manager"
	// WebhookConfiguration is the name of both webhook configurations.
	WebhookConfiguration = "clusterip-operator"
	// CertificateSecret holds the certificate of the webhooks, in the operator's namespace.
	CertificateSecret = "clusterip-operator-webhook"
)

// webhookTimeout is how many seconds API servers wait for a webhook. See Options.ShippedTimeout.
const webhookTimeout int64 = 10

// Install applies the CRDs and config/default of tree, a checkout's root, empty for ours, as far as
// it makes sense without nodes. It replaces webhook configurations, but only AddWebhooks adds them.
func (c *Cluster) Install(ctx context.Context, tree string) {
	GinkgoHelper()
	tree = cmp.Or(tree, Repository)
	Expect(c.InstallCRDsOf(ctx, tree)).To(Succeed())
	objects := manifests.Render(ctx, tree+"/config/default")
	c.webhooks = slices.DeleteFunc(slices.Clone(objects), func(o unstructured.Unstructured) bool { return !IsWebhooks(o) })
	Expect(c.ApplyObjects(ctx, slices.DeleteFunc(objects, func(o unstructured.Unstructured) bool {
		return IsWebhooks(o) || framework.LeftOut(o.GetKind())
	}))).To(Succeed())
	if c.HasWebhooks(ctx) {
		c.LeadWebhooks(ctx, c.webhooks, c.Balancer.Port())
	}
}

// IsWebhooks reports whether an object is one of the two webhook configurations.
func IsWebhooks(o unstructured.Unstructured) bool {
	return strings.HasSuffix(o.GetKind(), "WebhookConfiguration")
}

// AddWebhooks applies config/default's webhook configurations, with the balancer's URLs. The
// replicas then write their CA into them.
func (c *Cluster) AddWebhooks(ctx context.Context) {
	GinkgoHelper()
	c.LeadWebhooks(ctx, c.webhooks, c.Balancer.Port())
	if len(c.Replicas()) > 0 {
		c.WaitServing(ctx)
	}
}

// RemoveWebhooks deletes the webhook configurations, and waits until the API server has noticed.
func (c *Cluster) RemoveWebhooks(ctx context.Context) {
	GinkgoHelper()
	configurations := c.Client().AdmissionregistrationV1()
	Expect(configurations.MutatingWebhookConfigurations().Delete(ctx, WebhookConfiguration, metav1.DeleteOptions{})).To(Succeed())
	Expect(configurations.ValidatingWebhookConfigurations().Delete(ctx, WebhookConfiguration, metav1.DeleteOptions{})).To(Succeed())
	Eventually(c.Asks).WithArguments(ctx).WithPolling(200 * time.Millisecond).Should(BeFalse())
}

// WithoutWebhooks runs do while the API server calls no webhook, and always adds them again.
func (c *Cluster) WithoutWebhooks(ctx context.Context, do func()) {
	GinkgoHelper()
	defer c.AddWebhooks(ctx)
	c.RemoveWebhooks(ctx)
	do()
}

// Apply applies manifests as an administrator.
func (c *Cluster) Apply(ctx context.Context, text string, flags ...string) {
	GinkgoHelper()
	suite.Must(framework.KubectlWithInput(ctx, c.Kubeconfig(), text, append([]string{"apply", "--server-side", "-f", "-"}, flags...)...))
}

// ApplyForNow is Apply of what is deleted with the calling node.
func (c *Cluster) ApplyForNow(ctx context.Context, text string) {
	GinkgoHelper()
	c.Apply(ctx, text)
	DeferCleanup(func(ctx SpecContext) {
		suite.Must(framework.KubectlWithInput(ctx, c.Kubeconfig(), text, "delete", "--ignore-not-found", "-f", "-"))
	})
}

// Kustomize applies a kustomization as docs/guides/install.md says.
func (c *Cluster) Kustomize(ctx context.Context, folder string) {
	GinkgoHelper()
	c.Kubectl(ctx, "apply", "--server-side", "-k", folder)
}

// Kubectl runs kubectl as an administrator.
func (c *Cluster) Kubectl(ctx context.Context, args ...string) string {
	GinkgoHelper()
	return suite.Must(framework.Kubectl(ctx, c.Kubeconfig(), args...))
}

// LeadWebhooks applies the webhook configurations among objects, with a port of loopback instead of
// each webhook's Service, and with the time-out of tests.
func (c *Cluster) LeadWebhooks(ctx context.Context, objects []unstructured.Unstructured, port int) {
	GinkgoHelper()
	var led []unstructured.Unstructured
	for _, object := range objects {
		if !IsWebhooks(object) {
			continue
		}
		object = *object.DeepCopy()
		Expect(framework.LeadWebhooks(&object, port, func(webhook map[string]any) {
			if !c.options.ShippedTimeout {
				webhook["timeoutSeconds"] = webhookTimeout
			}
		})).To(Succeed())
		led = append(led, object)
	}
	Expect(led).To(HaveLen(2))
	Expect(c.ApplyObjects(ctx, led)).To(Succeed())
}

// HasWebhooks reports whether the mutating webhook configuration is there.
func (c *Cluster) HasWebhooks(ctx context.Context) bool {
	GinkgoHelper()
	_, err := c.Client().AdmissionregistrationV1().MutatingWebhookConfigurations().Get(ctx, WebhookConfiguration, metav1.GetOptions{})
	Expect(client.IgnoreNotFound(err)).NotTo(HaveOccurred())
	return err == nil
}

// Authorities are the CAs that the API server trusts for our webhooks, one entry for each webhook.
func (c *Cluster) Authorities(ctx context.Context) (bundles [][]byte) {
	GinkgoHelper()
	for _, config := range c.ClientConfigs(ctx) {
		bundles = append(bundles, config.CABundle)
	}
	return bundles
}

// ClientConfigs says how the API server calls each webhook of both configurations.
func (c *Cluster) ClientConfigs(ctx context.Context) (all []admissionregistrationv1.WebhookClientConfig) {
	GinkgoHelper()
	configurations := c.Client().AdmissionregistrationV1()
	mutating := suite.Must(configurations.MutatingWebhookConfigurations().Get(ctx, WebhookConfiguration, metav1.GetOptions{}))
	validating := suite.Must(configurations.ValidatingWebhookConfigurations().Get(ctx, WebhookConfiguration, metav1.GetOptions{}))
	for _, webhook := range mutating.Webhooks {
		all = append(all, webhook.ClientConfig)
	}
	for _, webhook := range validating.Webhooks {
		all = append(all, webhook.ClientConfig)
	}
	return all
}
