package framework

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"
)

// customResourceDefinitions is where an API server keeps them.
var customResourceDefinitions = schema.GroupVersionResource{
	Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions",
}

// servedTimeout is how long an API server may take until it serves a new resource. Mostly it takes less than a second.
const servedTimeout = 30 * time.Second

// InstallCRDs applies every CustomResourceDefinition of config/crd and waits until the API server serves what they define: objects
// can be created, listed and watched at once. Calling it again applies what has changed since.
func (a *Access) InstallCRDs(ctx context.Context) error {
	root, err := moduleRoot()
	if err != nil {
		return err
	}
	return a.InstallCRDsOf(ctx, root)
}

// InstallCRDsOf is InstallCRDs with those of another checkout, whose root is given.
func (a *Access) InstallCRDsOf(ctx context.Context, root string) error {
	definitions, err := readCRDs(root)
	if err != nil {
		return err
	}
	client, err := dynamic.NewForConfig(a.AdminConfig())
	if err != nil {
		return fmt.Errorf("making a client for CustomResourceDefinitions: %w", err)
	}
	for _, definition := range definitions {
		if err := installCRD(ctx, client, definition); err != nil {
			return err
		}
	}
	return nil
}

// readCRDs reads the definitions of config/crd, one from each file.
func readCRDs(root string) ([]*unstructured.Unstructured, error) {
	// The files that controller-gen writes are called group_resource.yaml; a kustomization is not.
	paths, err := filepath.Glob(filepath.Join(root, "config", "crd", "*_*.yaml"))
	if err != nil || len(paths) == 0 {
		return nil, fmt.Errorf("looking for CustomResourceDefinitions in config/crd: found %d: %w", len(paths), err)
	}
	var definitions []*unstructured.Unstructured
	for _, path := range paths {
		definition, err := readObject(path)
		if err != nil {
			return nil, err
		}
		definitions = append(definitions, definition)
	}
	return definitions, nil
}

func readObject(path string) (*unstructured.Unstructured, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading an object: %w", err)
	}
	object := &unstructured.Unstructured{}
	if err := yaml.UnmarshalStrict(content, &object.Object); err != nil {
		return nil, fmt.Errorf("reading the object in %s: %w", path, err)
	}
	return object, nil
}

func installCRD(ctx context.Context, client dynamic.Interface, definition *unstructured.Unstructured) error {
	name := definition.GetName()
	_, err := client.Resource(customResourceDefinitions).
		Apply(ctx, name, definition, metav1.ApplyOptions{FieldManager: "test", Force: true})
	if err != nil {
		return fmt.Errorf("applying CustomResourceDefinition %s: %w", name, err)
	}
	resource, err := definedBy(definition)
	if err != nil {
		return err
	}
	if err := waitUntilServed(ctx, client, resource); err != nil {
		return fmt.Errorf("waiting until the API server serves %s: %w", name, err)
	}
	return nil
}

// definedBy returns the resource that a definition defines, in its first version.
func definedBy(definition *unstructured.Unstructured) (schema.GroupVersionResource, error) {
	group, _, _ := unstructured.NestedString(definition.Object, "spec", "group")
	plural, _, _ := unstructured.NestedString(definition.Object, "spec", "names", "plural")
	versions, _, _ := unstructured.NestedSlice(definition.Object, "spec", "versions")
	if len(versions) > 0 {
		if first, ok := versions[0].(map[string]any); ok {
			version, _, _ := unstructured.NestedString(first, "name")
			return schema.GroupVersionResource{Group: group, Version: version, Resource: plural}, nil
		}
	}
	return schema.GroupVersionResource{}, fmt.Errorf("CustomResourceDefinition %s has no version", definition.GetName())
}

// waitUntilServed asks for the objects themselves, whatever the conditions of the definition say: the handler of a new resource is
// there some moments later.
func waitUntilServed(ctx context.Context, client dynamic.Interface, resource schema.GroupVersionResource) error {
	ctx, cancel := context.WithTimeout(ctx, servedTimeout)
	defer cancel()
	return wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		_, err := client.Resource(resource).List(ctx, metav1.ListOptions{Limit: 1})
		if apierrors.IsNotFound(err) || apierrors.IsServiceUnavailable(err) || apierrors.IsTooManyRequests(err) {
			return false, nil
		}
		return err == nil, err
	})
}
