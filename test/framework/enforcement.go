package framework

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"
)

// InstallEnforcement applies config/enforcement's ValidatingAdmissionPolicy and its keeper, as
// config/default does. Without the binding that the operator writes they do nothing.
func (a *Access) InstallEnforcement(ctx context.Context) error {
	root, err := ModuleRoot()
	if err != nil {
		return err
	}
	client, err := dynamic.NewForConfig(a.AdminConfig())
	if err != nil {
		return fmt.Errorf("making a client for the ValidatingAdmissionPolicy: %w", err)
	}
	for file, resource := range map[string]string{"policy.yaml": "validatingadmissionpolicies", "keeper.yaml": "validatingadmissionpolicybindings"} {
		content, err := os.ReadFile(filepath.Join(root, "config", "enforcement", file))
		if err != nil {
			return err
		}
		object := &unstructured.Unstructured{}
		if err := yaml.UnmarshalStrict(content, &object.Object); err != nil {
			return err
		}
		kind := schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: resource}
		if _, err := client.Resource(kind).Apply(ctx, object.GetName(), object, metav1.ApplyOptions{FieldManager: "test", Force: true}); err != nil {
			return fmt.Errorf("installing the %s: %w", object.GetKind(), err)
		}
	}
	return nil
}
