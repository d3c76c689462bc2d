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

// InstallEnforcement applies the ValidatingAdmissionPolicy of config/enforcement, as an admin does who applies config/default. Without a binding,
// which the operator writes, it does nothing.
func (a *Access) InstallEnforcement(ctx context.Context) error {
	root, err := ModuleRoot()
	if err != nil {
		return err
	}
	content, err := os.ReadFile(filepath.Join(root, "config", "enforcement", "policy.yaml"))
	if err != nil {
		return err
	}
	policy := &unstructured.Unstructured{}
	if err := yaml.UnmarshalStrict(content, &policy.Object); err != nil {
		return err
	}
	client, err := dynamic.NewForConfig(a.AdminConfig())
	if err != nil {
		return fmt.Errorf("making a client for the ValidatingAdmissionPolicy: %w", err)
	}
	policies := schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingadmissionpolicies"}
	if _, err := client.Resource(policies).Apply(ctx, policy.GetName(), policy, metav1.ApplyOptions{FieldManager: "test", Force: true}); err != nil {
		return fmt.Errorf("installing the ValidatingAdmissionPolicy: %w", err)
	}
	return nil
}
