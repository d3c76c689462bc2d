//go:build linux

package cluster

import (
	"context"
	"fmt"
	"net/netip"
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

// APIServerAddress is where nodes and pods reach the API server without a Service proxy.
func APIServerAddress() netip.Addr { return nodeAddresses(1)[0] }

// nodeURL is where nodes reach the API server.
func (c *Cluster) nodeURL() string {
	return fmt.Sprintf("https://%s:%d", APIServerAddress(), c.Port())
}

// startControllers starts kube-controller-manager with all that it does by default, and kube-scheduler.
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
