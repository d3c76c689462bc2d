package framework

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/clusterip-operator/clusterip-operator/test/framework/network"
)

// KubeProxyOptions say how to run the real kube-proxy. Namespace and Node must be set.
type KubeProxyOptions struct {
	// Namespace is that of the node.
	Namespace *network.Namespace
	// Node is the name of the Node, which must exist.
	Node string
	// Mode is "iptables", the default, or "nftables".
	Mode string
	// Variant is the kind of iptables, "nft", the default, or "legacy".
	Variant string
	// Config replaces and completes fields of the KubeProxyConfiguration.
	Config map[string]any
}

// KubeProxy is a process of kube-proxy.
type KubeProxy struct{ nodeProxy }

// KubeProxyVersion is what the kube-proxy that StartKubeProxy runs calls itself, "v1.37.2".
func KubeProxyVersion(ctx context.Context) (string, error) {
	path, err := program(module137, "kube-proxy")
	if err != nil {
		return "", err
	}
	said, err := exec.CommandContext(ctx, path, "--version").Output()
	if err != nil {
		return "", fmt.Errorf("asking kube-proxy for its version: %w", err)
	}
	return strings.TrimPrefix(strings.TrimSpace(string(said)), "Kubernetes "), nil
}

// StartKubeProxy starts a kube-proxy and waits until it says it is healthy. Rules may come later.
func (c *ControlPlane) StartKubeProxy(ctx context.Context, options KubeProxyOptions) (*KubeProxy, error) {
	path, err := program(module137, "kube-proxy")
	if err != nil {
		return nil, err
	}
	variants, err := IPTables(cmp.Or(options.Variant, "nft"))
	if err != nil {
		return nil, err
	}
	p := &KubeProxy{}
	p.name, p.log, p.ready = "kube-proxy", c.logFor("kube-proxy"), p.healthz
	files, err := c.proxyFiles(p.log, options.Namespace, options.Node, cmp.Or(options.Mode, "iptables"), options.Config)
	if err != nil {
		return nil, err
	}
	p.env = []string{"PATH=" + variants + string(os.PathListSeparator) + os.Getenv("PATH")}
	p.inNamespace(options.Namespace, path, append(files, "-v=2"))
	return p, c.run(ctx, p)
}
