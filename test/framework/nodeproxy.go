package framework

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/test/framework/network"
)

// Where a Service proxy listens in its namespace unless its configuration says otherwise.
const (
	proxyHealth  = "http://127.0.0.1:10256"
	proxyMetrics = "http://127.0.0.1:10249"
)

// nodeProxy is what [ProxyAgent] and [KubeProxy] share: a Service proxy in a node's namespace.
type nodeProxy struct {
	Process

	namespace *network.Namespace
}

// inNamespace makes the process one that runs in a namespace.
func (p *nodeProxy) inNamespace(n *network.Namespace, program string, args []string) {
	line := n.CommandLine(program, args...)
	p.namespace, p.program = n, line[0]
	p.args = func() []string { return line[1:] }
	p.env = append(p.env, "XTABLES_LOCKFILE="+n.LockFile())
}

// Healthy returns nil if "/healthz" or "/livez" of the health address answers 200, else the answer.
func (p *nodeProxy) Healthy(ctx context.Context, path string) error {
	return askOK(ctx, p.namespace.HTTPClient(), proxyHealth+path)
}

func (p *nodeProxy) healthz(ctx context.Context) error { return p.Healthy(ctx, "/healthz") }

// Get returns what a path of the metrics address answers with 200, such as "/proxyMode".
func (p *nodeProxy) Get(ctx context.Context, path string) (string, error) {
	return ask(ctx, p.namespace.HTTPClient(), proxyMetrics+path, "")
}

// Metrics scrapes the proxy.
func (p *nodeProxy) Metrics(ctx context.Context) (Metrics, error) {
	text, err := p.Get(ctx, "/metrics")
	if err != nil {
		return nil, fmt.Errorf("scraping %s: %w", p.name, err)
	}
	return ParseMetrics(text)
}

// kubeconfigInside writes a kubeconfig with which programs in a namespace reach the API server,
// through a forwarder that lives as long as the namespace.
func (c *ControlPlane) kubeconfigInside(n *network.Namespace, path string) error {
	address, err := n.Forward(fmt.Sprintf("%s:%d", loopback, c.port))
	if err != nil {
		return err
	}
	inside := c.AdminConfig()
	inside.Host = "https://" + address
	return WriteKubeconfig(path, inside)
}

// proxyFiles writes a kubeconfig and a configuration beside a proxy's log, and returns their flags.
func (c *ControlPlane) proxyFiles(log string, n *network.Namespace, node, mode string, fields map[string]any) (flags []string, err error) {
	base := strings.TrimSuffix(log, ".log")
	if err := c.kubeconfigInside(n, base+".kubeconfig"); err != nil {
		return nil, err
	}
	text, err := yaml.Marshal(proxyConfiguration(node, base+".kubeconfig", mode, fields))
	if err != nil {
		return nil, fmt.Errorf("writing the configuration of a proxy: %w", err)
	}
	return []string{"--config=" + base + ".yaml", "--kubeconfig=" + base + ".kubeconfig"}, os.WriteFile(base+".yaml", text, 0o600)
}

// proxyConfiguration returns a KubeProxyConfiguration for a [network.Topology]'s node: the
// cluster's range tells pods, conntrack is left alone, changes come soon. fields replace and
// complete it, maps field by field.
func proxyConfiguration(node, kubeconfig, mode string, fields map[string]any) map[string]any {
	config := map[string]any{
		"apiVersion":       "kubeproxy.config.k8s.io/v1alpha1",
		"kind":             "KubeProxyConfiguration",
		"mode":             mode,
		"hostnameOverride": node,
		"bindAddress":      "0.0.0.0",
		"clusterCIDR":      network.ClusterCIDR(model.IPv4).String() + "," + network.ClusterCIDR(model.IPv6).String(),
		"detectLocalMode":  "ClusterCIDR",
		"clientConnection": map[string]any{"kubeconfig": kubeconfig, "qps": 100, "burst": 200},
		"conntrack":        map[string]any{"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
		"iptables":         map[string]any{"minSyncPeriod": "200ms"},
		"nftables":         map[string]any{"minSyncPeriod": "200ms"},
	}
	for name, value := range fields {
		inner, ok := value.(map[string]any)
		if own, both := config[name].(map[string]any); ok && both {
			maps.Copy(own, inner)
			continue
		}
		config[name] = value
	}
	return config
}

// IPTables returns a folder in which iptables, ip6tables, -save and -restore are of one variant,
// "nft" or "legacy". At the front of PATH it decides for programs that know one name.
func IPTables(variant string) (string, error) {
	_, dir, err := checkout()
	if err != nil {
		return "", err
	}
	dir = filepath.Join(dir, "iptables-"+variant)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("choosing iptables-%s: %w", variant, err)
	}
	return dir, linkVariant(dir, variant)
}

func linkVariant(dir, variant string) error {
	for _, base := range []string{"iptables", "ip6tables"} {
		for _, tail := range []string{"", "-save", "-restore"} {
			path, err := exec.LookPath(base + "-" + variant + tail)
			if err != nil {
				return fmt.Errorf("choosing iptables-%s: %w", variant, err)
			}
			if err := os.Symlink(path, filepath.Join(dir, base+tail)); err != nil && !os.IsExist(err) {
				return fmt.Errorf("choosing iptables-%s: %w", variant, err)
			}
		}
	}
	return nil
}
