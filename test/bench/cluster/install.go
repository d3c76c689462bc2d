package cluster

import (
	"context"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
)

const (
	// manifests are seen from the root of the module, where benchmarks run.
	manifests = "config/default"
	// Home is the operator's namespace, account its ServiceAccount.
	Home    = "clusterip-operator-system"
	account = "system:serviceaccount:" + Home + ":clusterip-operator-manager"
)

// Install applies the manifests, with a balancer as the place of the webhooks, each of which change
// may change.
func (c *Cluster) Install(ctx context.Context, b *framework.Balancer, change func(webhook map[string]any)) error {
	objects, err := framework.Render(ctx, manifests)
	if err != nil {
		return err
	}
	objects = slices.DeleteFunc(objects, func(o unstructured.Unstructured) bool { return framework.LeftOut(o.GetKind()) })
	for i, o := range objects {
		if !strings.HasSuffix(o.GetKind(), "WebhookConfiguration") {
			continue
		}
		if err := framework.LeadWebhooks(&objects[i], b.Port(), change); err != nil {
			return err
		}
	}
	return c.ApplyObjects(ctx, objects)
}

// OperatorKubeconfig writes the kubeconfig of the operator's user.
func (c *Cluster) OperatorKubeconfig() (string, error) {
	config, err := c.ConfigForUser(account, "system:serviceaccounts", "system:serviceaccounts:"+Home)
	if err != nil {
		return "", err
	}
	path := filepath.Join(c.Dir(), "operator.kubeconfig")
	return path, framework.WriteKubeconfig(path, config)
}
