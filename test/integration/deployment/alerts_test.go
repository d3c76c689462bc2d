package deployment_test

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/manifests"
)

// alert is a rule of config/prometheus.
type alert struct {
	Alert, Expr string
}

func alerts(ctx context.Context) (all []alert) {
	GinkgoHelper()
	for _, object := range manifests.Render(ctx, folder+"/prometheus") {
		if object.GetKind() == "PrometheusRule" {
			var rule struct {
				Spec struct{ Groups []struct{ Rules []alert } }
			}
			content, err := object.MarshalJSON()
			Expect(err).NotTo(HaveOccurred())
			Expect(json.Unmarshal(content, &rule)).To(Succeed())
			for _, group := range rule.Spec.Groups {
				all = append(all, slices.DeleteFunc(group.Rules, func(a alert) bool { return a.Alert == "" })...) // what is recorded has labels that a rule makes
			}
		}
	}
	Expect(all).NotTo(BeEmpty())
	return all
}

var (
	outside   = regexp.MustCompile(`\{[^}]*\}|\[[^\]]*\]|` + grouping)
	grouping  = `\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)`
	groupings = regexp.MustCompile(grouping)
	matchers  = regexp.MustCompile(`\{[^}]*\}`)
	served    = regexp.MustCompile(`[a-zA-Z_:][a-zA-Z0-9_:]*_[a-zA-Z0-9_:]*(\s*\()?`)
	names     = regexp.MustCompile(`[a-zA-Z_][a-zA-Z0-9_]*`)
	matched   = regexp.MustCompile(`([a-zA-Z_][a-zA-Z0-9_]*)\s*(?:=|!)`)
)

// metrics are the names of metrics in a PromQL expression: names with an underscore, no functions.
func (a alert) metrics() (all []string) {
	for _, name := range served.FindAllString(outside.ReplaceAllString(a.Expr, ""), -1) {
		if !strings.HasSuffix(name, "(") {
			all = append(all, name)
		}
	}
	return all
}

// labels are those by which an expression groups and selects, without that which tells clusters
// apart: a scraper adds it.
func (a alert) labels() (all []string) {
	for _, grouping := range groupings.FindAllStringSubmatch(a.Expr, -1) {
		all = append(all, slices.DeleteFunc(names.FindAllString(grouping[1], -1), func(name string) bool { return name == "cluster" })...)
	}
	for _, matcher := range matchers.FindAllString(a.Expr, -1) {
		for _, label := range matched.FindAllStringSubmatch(matcher, -1) {
			all = append(all, label[1])
		}
	}
	return all
}

// Prometheus finds the pods through a Service, found by its labels. A name that does not match is
// no error anywhere: there are just no metrics.
var _ = It("The ServiceMonitor leads to the port on which the manager serves", func(ctx SpecContext) {
	m := slices.Concat(manifests.Render(ctx, defaults), manifests.Render(ctx, folder+"/prometheus"))
	monitor := manifests.Only[map[string]any](m, "ServiceMonitor")
	service := manifests.Named[corev1.Service](m, "Service", "clusterip-operator-manager-metrics")
	pod := manifests.Only[appsv1.Deployment](m, "Deployment").Spec.Template

	Expect(monitor).To(HaveKeyWithValue("metadata", HaveKeyWithValue("namespace", service.Namespace)))
	selected, _, err := unstructured.NestedStringMap(monitor, "spec", "selector", "matchLabels")
	Expect(err).NotTo(HaveOccurred())
	for _, other := range manifests.Every[corev1.Service](m, "Service") {
		Expect(labels.SelectorFromSet(selected).Matches(labels.Set(other.Labels))).To(Equal(other.Name == service.Name), other.Name)
	}
	Expect(labels.SelectorFromSet(service.Spec.Selector).Matches(labels.Set(pod.Labels))).To(BeTrue())
	endpoints, _, err := unstructured.NestedSlice(monitor, "spec", "endpoints")
	Expect(err).NotTo(HaveOccurred())
	Expect(endpoints).To(ConsistOf(And(HaveKeyWithValue("port", service.Spec.Ports[0].Name), HaveKeyWithValue("scheme", "https"))))
	Expect(pod.Spec.Containers[0].Ports).To(ContainElement(HaveField("Name", service.Spec.Ports[0].TargetPort.StrVal)))
	Expect(pod.Spec.Containers[0].Args).To(ContainElement("--metrics-bind-address=:8443"))
})

// OpenShift, Alloy and others drop a ServiceMonitor that names a file of the scraper.
var _ = It("The ServiceMonitor has a token that may read metrics, and no file", func(ctx SpecContext) {
	m := slices.Concat(manifests.Render(ctx, defaults), manifests.Render(ctx, folder+"/prometheus"))
	endpoints, _, err := unstructured.NestedSlice(manifests.Only[map[string]any](m, "ServiceMonitor"), "spec", "endpoints")
	Expect(err).NotTo(HaveOccurred())
	Expect(fmt.Sprint(endpoints)).NotTo(ContainSubstring("File"))
	credentials, _, err := unstructured.NestedStringMap(endpoints[0].(map[string]any), "authorization", "credentials")
	Expect(err).NotTo(HaveOccurred())
	secret := manifests.Named[corev1.Secret](m, "Secret", credentials["name"])
	Expect(credentials).To(HaveKeyWithValue("key", corev1.ServiceAccountTokenKey))
	Expect(secret.Type).To(Equal(corev1.SecretTypeServiceAccountToken))
	account := manifests.Named[corev1.ServiceAccount](m, "ServiceAccount", secret.Annotations[corev1.ServiceAccountNameKey])
	Expect(account.Namespace).To(Equal(secret.Namespace))
	Expect(account.AutomountServiceAccountToken).To(HaveValue(BeFalse()))
	binding := manifests.Named[rbacv1.ClusterRoleBinding](m, "ClusterRoleBinding", "clusterip-operator-metrics-reader")
	Expect(binding.Subjects).To(ConsistOf(rbacv1.Subject{Kind: "ServiceAccount", Namespace: account.Namespace, Name: account.Name}))
	Expect(manifests.Named[rbacv1.ClusterRole](m, "ClusterRole", binding.RoleRef.Name).Rules).To(ConsistOf(
		rbacv1.PolicyRule{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}}))
})
