package deployment_test

import (
	"context"
	"os"
	"regexp"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
)

// alert is a rule of config/prometheus.
type alert struct{ name, expr, description string }

func alerts(ctx context.Context) (all []alert) {
	GinkgoHelper()
	rule := only[map[string]any](render(ctx, folder+"/prometheus"), "PrometheusRule")
	groups, _, err := unstructured.NestedSlice(rule, "spec", "groups")
	Expect(err).NotTo(HaveOccurred())
	for _, group := range groups {
		rules, _, err := unstructured.NestedSlice(group.(map[string]any), "rules")
		Expect(err).NotTo(HaveOccurred())
		for _, rule := range rules {
			fields := rule.(map[string]any)
			description, _, err := unstructured.NestedString(fields, "annotations", "description")
			Expect(err).NotTo(HaveOccurred())
			all = append(all, alert{name: fields["alert"].(string), expr: fields["expr"].(string), description: description})
		}
	}
	Expect(all).NotTo(BeEmpty())
	return all
}

var (
	matchers  = regexp.MustCompile(`\{[^}]*\}`)
	windows   = regexp.MustCompile(`\[[^\]]*\]`)
	groupings = regexp.MustCompile(`\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)`)
	words     = regexp.MustCompile(`[a-zA-Z_:][a-zA-Z0-9_:]*\s*\(?`)
	names     = regexp.MustCompile(`[a-zA-Z_][a-zA-Z0-9_]*`)
	matched   = regexp.MustCompile(`([a-zA-Z_][a-zA-Z0-9_]*)\s*(?:=|!)`)
)

// metrics are the names that are left of an expression of PromQL without labels, functions and operators.
func (a alert) metrics() (all []string) {
	text := groupings.ReplaceAllString(windows.ReplaceAllString(matchers.ReplaceAllString(a.expr, ""), ""), "")
	for _, word := range words.FindAllString(text, -1) {
		name := names.FindString(word)
		function := word[len(word)-1] == '('
		operator := slices.Contains([]string{"and", "or", "unless", "bool", "offset"}, name)
		aggregation := slices.Contains([]string{"sum", "min", "max", "avg", "count"}, name) // its brackets come after "by"
		if !function && !operator && !aggregation {
			all = append(all, name)
		}
	}
	return all
}

// labels are those by which an expression groups and selects.
func (a alert) labels() (all []string) {
	for _, grouping := range groupings.FindAllStringSubmatch(a.expr, -1) {
		all = append(all, names.FindAllString(grouping[1], -1)...)
	}
	for _, matcher := range matchers.FindAllString(a.expr, -1) {
		for _, label := range matched.FindAllStringSubmatch(matcher, -1) {
			all = append(all, label[1])
		}
	}
	return all
}

// Prometheus finds the pods through a Service, and that by its labels. A name that does not match is no error anywhere: there are
// just no metrics.
var _ = Describe("The ServiceMonitor", func() {
	It("leads to the port on which the manager serves", func(ctx SpecContext) {
		m := slices.Concat(render(ctx, defaults), render(ctx, folder+"/prometheus"))
		monitor := only[map[string]any](m, "ServiceMonitor")
		service := named[corev1.Service](m, "Service", "clusterip-operator-manager-metrics")
		pod := only[appsv1.Deployment](m, "Deployment").Spec.Template

		Expect(monitor).To(HaveKeyWithValue("metadata", HaveKeyWithValue("namespace", service.Namespace)))
		selected, _, err := unstructured.NestedStringMap(monitor, "spec", "selector", "matchLabels")
		Expect(err).NotTo(HaveOccurred())
		Expect(labels.SelectorFromSet(selected).Matches(labels.Set(service.Labels))).To(BeTrue())
		for _, other := range every[corev1.Service](m, "Service") {
			Expect(labels.SelectorFromSet(selected).Matches(labels.Set(other.Labels))).To(Equal(other.Name == service.Name), other.Name)
		}
		Expect(labels.SelectorFromSet(service.Spec.Selector).Matches(labels.Set(pod.Labels))).To(BeTrue())
		endpoints, _, err := unstructured.NestedSlice(monitor, "spec", "endpoints")
		Expect(err).NotTo(HaveOccurred())
		Expect(endpoints).To(ConsistOf(And(HaveKeyWithValue("port", service.Spec.Ports[0].Name), HaveKeyWithValue("scheme", "https"))))
		Expect(pod.Spec.Containers[0].Ports).To(ContainElement(HaveField("Name", service.Spec.Ports[0].TargetPort.StrVal)))
		Expect(pod.Spec.Containers[0].Args).To(ContainElement("--metrics-bind-address=:8443"))
	})
})

// Who is woken at night looks for the name of the alert.
var _ = Describe("The alerts", func() {
	It("have runbooks where they say so", func(ctx SpecContext) {
		text, err := os.ReadFile(folder + "/../docs/runbooks.md")
		Expect(err).NotTo(HaveOccurred())
		pointing := 0
		for _, alert := range alerts(ctx) {
			if strings.Contains(alert.description, "docs/runbooks.md") {
				pointing++
				Expect(string(text)).To(ContainSubstring("\n## " + alert.name + "\n"))
			}
		}
		Expect(pointing).NotTo(BeZero())
	})

	It("tell when Services are not steered", func(ctx SpecContext) {
		var looked []string
		for _, alert := range alerts(ctx) {
			looked = append(looked, alert.metrics()...)
		}
		Expect(looked).To(ContainElements("clusterip_operator_admission_decisions_total", "clusterip_operator_admission_in_flight_addresses",
			"clusterip_operator_admission_collisions_total"))
	})
})
