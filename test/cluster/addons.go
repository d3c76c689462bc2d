package cluster

import (
	"context"
	_ "embed"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
)

var (
	//go:embed dns.yaml
	dns string
	//go:embed kube-proxy.yaml
	kubeProxy string
)

// DeployDNS gives the cluster a DNS server and returns when it answers its probes. Pods reach it
// when a Service proxy serves 10.96.0.10. Nodes need its image, "coredns".
func (c *Cluster) DeployDNS(ctx context.Context) error {
	return c.deploy(ctx, "deployment/coredns", "kube-system", dns)
}

// DeployKubeProxy makes kube-proxy, the image "kube-proxy", the nodes' Service proxy, in a mode.
func (c *Cluster) DeployKubeProxy(ctx context.Context, mode string) error {
	return c.deploy(ctx, "daemonset/kube-proxy", "kube-system", strings.NewReplacer("$APISERVER", c.nodeURL(), "$MODE", mode).Replace(kubeProxy))
}

// Apply applies a manifest and waits for a workload's pods, "deployment/name" in namespace default.
func (c *Cluster) Apply(ctx context.Context, workload, manifest string) error {
	return c.deploy(ctx, workload, "default", manifest)
}

func (c *Cluster) deploy(ctx context.Context, workload, namespace, manifest string) error {
	path := filepath.Join(c.Dir(), filepath.Base(workload)+".yaml")
	if err := write(path, manifest); err != nil {
		return err
	}
	for _, args := range [][]string{{"apply", "--server-side", "-f", path}, {"--namespace=" + namespace, "rollout", "status", workload, "--timeout=90s"}} {
		if _, err := framework.Kubectl(ctx, c.Kubeconfig(), args...); err != nil {
			return fmt.Errorf("deploying %s: %w", workload, err)
		}
	}
	return nil
}
