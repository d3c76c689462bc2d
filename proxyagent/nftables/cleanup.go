//go:build linux

package nftables

import (
	"fmt"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

// Cleanup removes only our table, or that of kube-proxy's mode nftables, and says what it did.
func Cleanup(f model.Family, kubeProxy, dryRun bool) ([]string, error) {
	k, err := open(f)
	if err != nil {
		return nil, err
	}
	if kubeProxy {
		k.table.Name = "kube-proxy"
	}
	defer k.close()
	there, _, err := k.tableFlags()
	if err != nil || !there {
		return nil, err
	}
	did := []string{fmt.Sprintf("%s nftables: the table %s", f, k.table.Name)}
	if !dryRun {
		err = k.remove()
	}
	return did, err
}

// remove takes the table away.
func (k *kernel) remove() error {
	k.conn.DelTable(k.table)
	if err := k.flush(); err != nil {
		return fmt.Errorf("removing the table %s: %w", k.table.Name, err)
	}
	return nil
}
