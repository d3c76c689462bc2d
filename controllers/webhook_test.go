package controllers

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"sigs.k8s.io/yaml"
)

// What is let through to each handler, and what config/webhook makes the API server send, must be the same.
func TestEndpointsAreWhatTheConfigurationsSend(t *testing.T) {
	type sent struct {
		Group, Resource string
		Operations      []admissionv1.Operation
	}
	want := map[string]sent{}
	for path, rule := range configured(t, "../config/webhook/mutating.yaml", "../config/webhook/validating.yaml") {
		s := sent{Group: strings.Join(rule.APIGroups, ","), Resource: strings.Join(rule.Resources, ",")}
		for _, operation := range rule.Operations {
			s.Operations = append(s.Operations, admissionv1.Operation(operation))
		}
		slices.Sort(s.Operations)
		s.Operations = slices.Compact(s.Operations) // creations have two webhooks
		want[path] = s
	}
	got := map[string]sent{}
	for path, e := range endpoints() {
		got[path] = sent{e.Group, e.Resource, slices.Sorted(slices.Values(e.Operations))}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("config/webhook against the endpoints (-sent +let through):\n%s", diff)
	}
}

// configured are the rules of files by the paths that they lead to, with the operations of all webhooks that lead there. Every webhook has one rule.
func configured(t *testing.T, files ...string) map[string]admissionregistrationv1.RuleWithOperations {
	t.Helper()
	rules := map[string]admissionregistrationv1.RuleWithOperations{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var c admissionregistrationv1.ValidatingWebhookConfiguration // both kinds have these fields
		if err := yaml.Unmarshal(text, &c); err != nil {
			t.Fatal(err)
		}
		for _, w := range c.Webhooks {
			if len(w.Rules) != 1 {
				t.Fatalf("%s has %d rules", w.Name, len(w.Rules))
			}
			path, rule := *w.ClientConfig.Service.Path, w.Rules[0]
			rule.Operations = append(rule.Operations, rules[path].Operations...)
			rules[path] = rule
		}
	}
	return rules
}

// PROJECT tells kubebuilder of the kinds that have webhooks: "defaulting" are those that mutate.
func TestProjectListsTheWebhooks(t *testing.T) {
	text, err := os.ReadFile("../PROJECT")
	if err != nil {
		t.Fatal(err)
	}
	var project struct {
		Resources []struct {
			Kind     string
			Webhooks map[string]any
		}
	}
	if err := yaml.Unmarshal(text, &project); err != nil {
		t.Fatal(err)
	}
	verbs := map[string]string{"defaulting": "/mutate-", "validation": "/validate-"}
	var listed []string
	for _, resource := range project.Resources {
		for what := range resource.Webhooks {
			if verb, ok := verbs[what]; ok {
				listed = append(listed, verb+strings.ToLower(resource.Kind))
			}
		}
	}
	slices.Sort(listed)
	if diff := cmp.Diff(slices.Sorted(maps.Keys(endpoints())), listed); diff != "" {
		t.Errorf("PROJECT against the endpoints (-served +listed):\n%s", diff)
	}
}
