package steering

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	sigsyaml "sigs.k8s.io/yaml"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
)

const (
	// manifests are seen from the root of the module, where benchmarks run.
	manifests = "config/default"
	// home is the operator's namespace, account its ServiceAccount.
	home    = "clusterip-operator-system"
	account = "system:serviceaccount:" + home + ":clusterip-operator-manager"
)

// leftOut are kinds that do nothing where there are no nodes, or that would take an address. The CRD is installed before.
var leftOut = []string{"Deployment", "PodDisruptionBudget", "Service", "CustomResourceDefinition", "ServiceMonitor"}

// install applies the manifests, with the balancer as the place of the webhooks.
func (b *bed) install(ctx context.Context) error {
	objects, err := render(ctx)
	if err != nil {
		return err
	}
	var text strings.Builder
	for _, o := range objects {
		if slices.Contains(leftOut, o.GetKind()) {
			continue
		}
		if err := b.redirect(&o); err != nil {
			return err
		}
		document, err := sigsyaml.Marshal(o.Object)
		if err != nil {
			return fmt.Errorf("writing %s %s: %w", o.GetKind(), o.GetName(), err)
		}
		fmt.Fprintf(&text, "---\n%s", document)
	}
	_, err = framework.KubectlWithInput(ctx, b.Kubeconfig(), text.String(), "apply", "--server-side", "-f", "-")
	return err
}

// redirect replaces the Service of every webhook by the balancer, if the object has webhooks.
func (b *bed) redirect(o *unstructured.Unstructured) error {
	if !strings.HasSuffix(o.GetKind(), "WebhookConfiguration") {
		return nil
	}
	webhooks, _, err := unstructured.NestedSlice(o.Object, "webhooks")
	if err != nil {
		return fmt.Errorf("reading %s: %w", o.GetKind(), err)
	}
	for _, webhook := range webhooks {
		config, _ := webhook.(map[string]any)["clientConfig"].(map[string]any)
		path, _, err := unstructured.NestedString(config, "service", "path")
		if err != nil || path == "" {
			return fmt.Errorf("reading %s: a webhook has no path: %w", o.GetKind(), err)
		}
		delete(config, "service")
		config["url"] = fmt.Sprintf("https://localhost:%d%s", b.balancer.Port(), path)
	}
	return unstructured.SetNestedSlice(o.Object, webhooks, "webhooks")
}

// operatorKubeconfig writes the kubeconfig of the operator's user.
func (b *bed) operatorKubeconfig() (string, error) {
	config, err := b.ConfigForUser(account, "system:serviceaccounts", "system:serviceaccounts:"+home)
	if err != nil {
		return "", err
	}
	path := filepath.Join(b.Dir(), "operator.kubeconfig")
	return path, framework.WriteKubeconfig(path, config)
}

// render is what `kubectl kustomize` makes of the manifests.
func render(ctx context.Context) (all []unstructured.Unstructured, err error) {
	text, err := framework.Kubectl(ctx, "", "kustomize", manifests)
	if err != nil {
		return nil, err
	}
	documents := yaml.NewYAMLReader(bufio.NewReader(strings.NewReader(text)))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		object := unstructured.Unstructured{}
		if err := errors.Join(err, yaml.Unmarshal(document, &object.Object)); err != nil {
			return nil, fmt.Errorf("reading %s: %w", manifests, err)
		}
		all = append(all, object)
	}
}
