package reserve

import (
	"encoding/json"
	"os"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
)

// TestDocumentHasNoDefault prints a policy with all that the API server adds: nothing of it may be
// in a repository, or the document would be another one after it was applied.
func TestDocumentHasNoDefault(t *testing.T) {
	text, err := os.ReadFile("../../config/crd/clusterip-operator.io_servicecidrpolicies.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var crd map[string]any
	if err := yaml.Unmarshal(text, &crd); err != nil {
		t.Fatal(err)
	}
	versions, _, _ := unstructured.NestedSlice(crd, "spec", "versions")
	fields, _, err := unstructured.NestedMap(versions[0].(map[string]any), "schema", "openAPIV3Schema", "properties", "spec", "properties")
	if err != nil {
		t.Fatal(err)
	}
	defaults := map[string]any{}
	for name, field := range fields {
		if value, ok := field.(map[string]any)["default"]; ok {
			defaults[name] = value
		}
	}
	if len(defaults) < 5 {
		t.Fatalf("the CustomResourceDefinition has the defaults %v: they are read wrongly", defaults)
	}
	var policy v1alpha1.ServiceCIDRPolicy
	if text, err = json.Marshal(map[string]any{"spec": defaults}); err == nil {
		err = json.Unmarshal(text, &policy)
	}
	if err != nil {
		t.Fatal(err)
	}
	if text, err = json.Marshal(documents([]*v1alpha1.ServiceCIDRPolicy{&policy}).Items[0].Spec); err != nil || string(text) != "{}" {
		t.Errorf("printed is %s, error %v", text, err)
	}
}
