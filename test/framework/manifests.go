package framework

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// Render is what `kubectl kustomize` makes of a folder.
func Render(ctx context.Context, folder string) (all []unstructured.Unstructured, err error) {
	text, err := Kubectl(ctx, "", "kustomize", folder)
	if err != nil {
		return nil, err
	}
	if all, err = ReadObjects(text); err != nil {
		return nil, fmt.Errorf("reading %s: %w", folder, err)
	}
	return all, nil
}

// ReadObjects reads the objects of a text in YAML, and passes over empty documents.
func ReadObjects(text string) (all []unstructured.Unstructured, err error) {
	documents := utilyaml.NewYAMLReader(bufio.NewReader(strings.NewReader(text)))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		object := unstructured.Unstructured{}
		if err := errors.Join(err, yaml.Unmarshal(document, &object.Object)); err != nil {
			return nil, err
		}
		if len(object.Object) > 0 {
			all = append(all, object)
		}
	}
}

// LeftOut reports whether objects of a kind in config/default do nothing without nodes, or take an
// address, or are for [Access.InstallCRDs].
func LeftOut(kind string) bool {
	return slices.Contains([]string{"Deployment", "PodDisruptionBudget", "Service", "CustomResourceDefinition", "ServiceMonitor"}, kind)
}

// ApplyObjects applies objects in their order: kustomize puts a namespace before what is in it.
func (a *Access) ApplyObjects(ctx context.Context, objects []unstructured.Unstructured) error {
	var text strings.Builder
	for _, o := range objects {
		document, err := yaml.Marshal(o.Object)
		if err != nil {
			return fmt.Errorf("writing %s %s: %w", o.GetKind(), o.GetName(), err)
		}
		fmt.Fprintf(&text, "---\n%s", document)
	}
	_, err := KubectlWithInput(ctx, a.Kubeconfig(), text.String(), "apply", "--server-side", "-f", "-")
	return err
}

// LeadWebhooks puts a port of loopback in the place of the Service of each webhook of one of our
// configurations, and changes what else is to be changed.
func LeadWebhooks(configuration *unstructured.Unstructured, port int, change func(webhook map[string]any)) error {
	webhooks, _, err := unstructured.NestedSlice(configuration.Object, "webhooks")
	if err != nil {
		return fmt.Errorf("reading %s: %w", configuration.GetKind(), err)
	}
	for _, webhook := range webhooks {
		webhook, _ := webhook.(map[string]any)
		config, _ := webhook["clientConfig"].(map[string]any)
		path, _, err := unstructured.NestedString(config, "service", "path")
		if err != nil || path == "" {
			return fmt.Errorf("reading %s: a webhook has no path: %w", configuration.GetKind(), err)
		}
		delete(config, "service")
		config["url"] = fmt.Sprintf("https://localhost:%d%s", port, path)
		change(webhook)
	}
	return unstructured.SetNestedSlice(configuration.Object, webhooks, "webhooks")
}
