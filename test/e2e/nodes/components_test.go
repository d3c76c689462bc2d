package nodes_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/test/cluster"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
)

// overlay is config/default with components, as an administrator writes it.
func (c testCluster) overlay(components ...string) string {
	GinkgoHelper()
	folder := filepath.Join(c.config, "overlays", strings.Join(components, "-"))
	Expect(os.MkdirAll(folder, 0o755)).To(Succeed())
	text := "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: [../../default]\ncomponents:\n"
	for _, name := range components {
		text += "- ../../components/" + name + "\n"
	}
	Expect(os.WriteFile(filepath.Join(folder, "kustomization.yaml"), []byte(text), 0o600)).To(Succeed())
	return folder
}

// apply applies an overlay with the operator, and waits for its pods.
func (c testCluster) apply(ctx context.Context, overlay string) {
	GinkgoHelper()
	c.kubectl(ctx, "apply", "--server-side", "-k", overlay)
	c.kubectl(ctx, "--namespace="+operatorNamespace, "rollout", "status", "deployment/clusterip-operator-manager", fmt.Sprint("--timeout=", 3*time.Minute*deadlineFactor))
}

// foreign are the kinds of cert-manager and Prometheus' operator; no controller acts on them here.
const foreign = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: $PLURAL.$GROUP, annotations: {api-approved.kubernetes.io: unapproved}}
spec:
  group: $GROUP
  scope: Namespaced
  names: {kind: $KIND, plural: $PLURAL}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]
---
`

var _ = Describe("config/default with components", Ordered, func() {
	var c testCluster

	// addressOf creates a Service of the tenant of the sample, and returns its address.
	addressOf := func(ctx context.Context, service string) string {
		GinkgoHelper()
		c.kubectl(ctx, "--namespace="+tenantNamespace, "create", "service", "clusterip", service, "--tcp=80")
		return c.kubectl(ctx, "--namespace="+tenantNamespace, "get", "service", service, "-o", "jsonpath={.spec.clusterIP}")
	}

	BeforeAll(func(ctx SpecContext) {
		c = start(ctx, cluster.Options{Images: []string{"manager", "proxyagent"}})
		c.kubectl(ctx, "apply", "--server-side", "-k", filepath.Join(c.config, "proxyagent"))
	}, NodeTimeout(9*time.Minute))

	It("works without webhooks, and steers nobody", func(ctx SpecContext) {
		c.apply(ctx, c.overlay("without-webhook"))
		c.kubectl(ctx, "apply", "--server-side", "-f", filepath.Join(c.config, "samples", "servicecidrpolicy_tenant.yaml"))
		c.kubectl(ctx, "wait", "servicecidr", "sample-tenant", "--for=condition=Ready", "--timeout=3m")
		Expect(addressOf(ctx, "unsteered")).NotTo(HavePrefix("10.114.0."))
		Expect(c.kubectl(ctx, "get", "mutatingwebhookconfigurations,validatingwebhookconfigurations", "-o", "name")).To(BeEmpty())
	}, SpecTimeout(6*time.Minute))

	It("takes its certificate from cert-manager, is watched by Prometheus, and reaches what it needs through the NetworkPolicy", func(ctx SpecContext) {
		for _, kind := range []string{"Certificate certificates cert-manager.io", "Issuer issuers cert-manager.io",
			"ServiceMonitor servicemonitors monitoring.coreos.com", "PrometheusRule prometheusrules monitoring.coreos.com"} {
			words := strings.Fields(kind)
			path := filepath.Join(c.Dir(), words[0]+".yaml")
			text := strings.NewReplacer("$KIND", words[0], "$PLURAL", words[1], "$GROUP", words[2]).Replace(foreign)
			Expect(os.WriteFile(path, []byte(text), 0o600)).To(Succeed())
			c.kubectl(ctx, "apply", "-f", path)
			c.kubectl(ctx, "wait", "crd", words[1]+"."+words[2], "--for=condition=Established", "--timeout=3m")
		}
		// What cert-manager would do: the Secret, and the authority in the configurations.
		certificate, key, err := c.ServerCert([]string{"clusterip-operator-webhook.clusterip-operator-system.svc"})
		Expect(err).NotTo(HaveOccurred())
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "clusterip-operator-webhook-tls"}, Data: map[string][]byte{"tls.crt": certificate, "tls.key": key}}
		suite.Must(c.Client().CoreV1().Secrets(operatorNamespace).Create(ctx, secret, metav1.CreateOptions{}))
		c.apply(ctx, c.overlay("cert-manager", "prometheus", "network-policy"))
		file, _, _ := c.CA()
		authority := suite.Must(os.ReadFile(file))
		for _, kind := range []string{"mutatingwebhookconfiguration", "validatingwebhookconfiguration"} {
			patch := suite.Must(json.Marshal([]map[string]string{{"op": "add", "path": "/webhooks/0/clientConfig/caBundle", "value": base64.StdEncoding.EncodeToString(authority)}}))
			c.kubectl(ctx, "patch", kind, "clusterip-operator", "--type=json", "--patch="+string(patch))
		}
		c.kubectl(ctx, "wait", "servicecidrpolicy", "sample-tenant", "--for=condition=Programmed", "--timeout=3m")
		n := 0
		Eventually(func() string { n++; return addressOf(ctx, fmt.Sprintf("steered-%d", n)) }, soon).Should(HavePrefix("10.114.0."), "the API server goes by a configuration some moments later")
		Expect(c.kubectl(ctx, "--namespace="+operatorNamespace, "get", "servicemonitors,prometheusrules,certificates,networkpolicies", "-o", "name")).To(
			And(ContainSubstring("servicemonitor"), ContainSubstring("prometheusrule"), ContainSubstring("certificate"), ContainSubstring("networkpolicy")))
	}, SpecTimeout(9*time.Minute))
})
