package framework

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"
)

// servedTimeout is how long an API server may take to serve a new resource, mostly under a second.
const servedTimeout = 30 * time.Second

// InstallCRDs applies all CustomResourceDefinitions of config/crd and waits until their objects can
// be created, listed and watched. Calling it again applies what has changed since.
func (a *Access) InstallCRDs(ctx context.Context) error {
	root, err := ModuleRoot()
	if err != nil {
		return err
	}
	return a.InstallCRDsOf(ctx, root)
}

// InstallCRDsOf is InstallCRDs with those of another checkout, whose root is given.
func (a *Access) InstallCRDsOf(ctx context.Context, root string) error {
	// The files that controller-gen writes are called group_resource.yaml; a kustomization is not.
	paths, err := filepath.Glob(filepath.Join(root, "config", "crd", "*_*.yaml"))
	if err != nil || len(paths) == 0 {
		return fmt.Errorf("looking for CustomResourceDefinitions in config/crd: found %d: %w", len(paths), err)
	}
	client, err := dynamic.NewForConfig(a.AdminConfig())
	if err != nil {
		return fmt.Errorf("making a client for CustomResourceDefinitions: %w", err)
	}
	for _, path := range paths {
		if err := a.installCRD(ctx, client, path); err != nil {
			return fmt.Errorf("installing %s: %w", path, err)
		}
	}
	return nil
}

func (a *Access) installCRD(ctx context.Context, client dynamic.Interface, path string) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	definition := &unstructured.Unstructured{}
	if err := yaml.UnmarshalStrict(content, &definition.Object); err != nil {
		return err
	}
	definitions := schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	_, err = client.Resource(definitions).Apply(ctx, definition.GetName(), definition, metav1.ApplyOptions{FieldManager: "test", Force: true})
	if err != nil {
		return err
	}
	plural, group, _ := strings.Cut(definition.GetName(), ".")
	versions, _, _ := unstructured.NestedSlice(definition.Object, "spec", "versions")
	version, _, err := unstructured.NestedString(versions[0].(map[string]any), "name")
	if err != nil {
		return err
	}
	return a.waitUntilServed(ctx, client, schema.GroupVersionResource{Group: group, Version: version, Resource: plural})
}

// waitUntilServed asks for the objects themselves, whatever the definition's conditions say: a new
// resource's handler is there moments later. Discovery, where clients look a kind up first, is
// filled by another controller and may be later still.
func (a *Access) waitUntilServed(ctx context.Context, client dynamic.Interface, resource schema.GroupVersionResource) error {
	known, err := discovery.NewDiscoveryClientForConfig(a.AdminConfig())
	if err != nil {
		return err
	}
	return wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, servedTimeout, true, func(ctx context.Context) (bool, error) {
		_, err := client.Resource(resource).List(ctx, metav1.ListOptions{Limit: 1})
		if apierrors.IsNotFound(err) || apierrors.IsServiceUnavailable(err) || apierrors.IsTooManyRequests(err) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		_, lists, _, err := known.GroupsAndMaybeResources()
		list := lists[resource.GroupVersion()]
		return list != nil && slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == resource.Resource }), err
	})
}
