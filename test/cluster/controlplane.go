package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
)

// kubeconfig writes how a user of the control plane connects from any node.
func (c *Cluster) kubeconfig(path, user string, groups ...string) error {
	config, err := c.ConfigForUser(user, groups...)
	if err != nil {
		return err
	}
	config.Host = c.nodeURL()
	return framework.WriteKubeconfig(path, config)
}

// apiServer is where nodes and pods reach the API server without a Service proxy.
func apiServer() netip.Addr { return nodeAddresses(1)[0] }

// nodeURL is that of the API server for nodes.
func (c *Cluster) nodeURL() string { return fmt.Sprintf("https://%s:%d", apiServer(), c.Port()) }

// Configuration returns a copy of config/, in the cluster's folder, with what
// docs/guides/kube-proxy.md leaves to admins: where agents reach the API server, and the addresses
// of pods.
func (c *Cluster) Configuration() (string, error) {
	root, err := framework.ModuleRoot()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(c.Dir(), "config")
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(root, "config"))); err != nil {
		return "", fmt.Errorf("copying the configuration: %w", err)
	}
	return dir, errors.Join(
		appendTo(filepath.Join(dir, "proxyagent", "apiserver.env"), fmt.Sprintf("KUBERNETES_SERVICE_HOST=%s\nKUBERNETES_SERVICE_PORT=%d\n", apiServer(), c.Port())),
		appendTo(filepath.Join(dir, "proxyagent", "config.yaml"), "detectLocal:\n  mode: ClusterCIDR\n  clusterCIDRs: [10.244.0.0/16, fd00:10:244::/48]\n"),
	)
}

func appendTo(path, text string) error {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// startControllers starts kube-scheduler, and kube-controller-manager with its default controllers.
func (c *Cluster) startControllers(ctx context.Context, p programs) error {
	ca, caKey, accounts := c.CA()
	for name, args := range map[string][]string{
		"kube-controller-manager": {
			"--controllers=*", "--use-service-account-credentials=true", "--service-account-private-key-file=" + accounts, "--root-ca-file=" + ca,
			"--cluster-signing-cert-file=" + ca, "--cluster-signing-key-file=" + caKey, "--allocate-node-cidrs=false",
		},
		"kube-scheduler": nil,
	} {
		kubeconfig := filepath.Join(c.Dir(), name+".kubeconfig")
		if err := c.kubeconfig(kubeconfig, "system:"+name); err != nil {
			return err
		}
		args = append(args, "--kubeconfig="+kubeconfig, "--authentication-kubeconfig="+kubeconfig, "--authorization-kubeconfig="+kubeconfig, "--leader-elect=false")
		if _, err := c.StartProgram(ctx, framework.Program{Name: name, Path: filepath.Join(p.kubernetes, name), Args: args}); err != nil {
			return err
		}
	}
	return nil
}
