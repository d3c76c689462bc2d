package controllers

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"sigs.k8s.io/yaml"

	"github.com/clusterip-operator/clusterip-operator/controllers/admission"
)

// What passes to each handler and what config/webhook makes the API server send must be the same.
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

// The accounts for which the API server does not ask are those that the guards trust. The webhooks
// of IPAddresses and ServiceCIDRs spare all of them the call, the rest the API server alone.
func TestExemptAccountsAreOneList(t *testing.T) {
	account := regexp.MustCompile(`"(system:[^"]+)"`)
	for _, file := range []string{"../config/webhook/mutating.yaml", "../config/webhook/validating.yaml"} {
		for _, w := range webhooksOf(t, file) {
			var exempt []string
			for _, condition := range w.MatchConditions {
				if strings.Contains(condition.Expression, "clusterip-operator-system:") {
					continue // the operator's own
				}
				for _, match := range account.FindAllStringSubmatch(condition.Expression, -1) {
					exempt = append(exempt, match[1])
				}
			}
			want := admission.ControlPlane
			switch *w.ClientConfig.Service.Path {
			case "/mutate-service":
				want = exempt[:min(1, len(exempt))] // creations have a webhook without conditions
			case "/validate-servicecidrpolicy":
				want = []string{"system:apiserver"}
			}
			if diff := cmp.Diff(want, exempt); diff != "" {
				t.Errorf("%s (-trusted by the guard +spared the call):\n%s", w.Name, diff)
			}
			if len(exempt) > 0 && !slices.Contains(admission.ControlPlane, exempt[0]) {
				t.Errorf("%s spares %s the call", w.Name, exempt[0])
			}
		}
	}
}

// webhooksOf reads the webhooks of a file.
func webhooksOf(t *testing.T, file string) []admissionregistrationv1.ValidatingWebhook {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var c admissionregistrationv1.ValidatingWebhookConfiguration // both kinds have these fields
	if err := yaml.Unmarshal(text, &c); err != nil {
		t.Fatal(err)
	}
	return c.Webhooks
}

// configured are the rules of files by path, with the operations of all webhooks of that path.
func configured(t *testing.T, files ...string) map[string]admissionregistrationv1.RuleWithOperations {
	t.Helper()
	rules := map[string]admissionregistrationv1.RuleWithOperations{}
	for _, file := range files {
		for _, w := range webhooksOf(t, file) {
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
