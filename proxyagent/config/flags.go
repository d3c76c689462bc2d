package config

import (
	"errors"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/api/config/v1alpha1"
)

// Flags are the values of a command line. A nil one was not given.
type Flags struct {
	Kubeconfig, NodeName, Allocations, IPTablesMode, ServiceProxyName *string
	MetricsBindAddress, HealthBindAddress, SysctlRoot                 *string
	// ClusterCIDRs are the values of --cluster-cidr, split at commas. Given, they switch to mode ClusterCIDR.
	ClusterCIDRs  *[]string
	MinSyncPeriod *time.Duration
	Verbosity     *int
}

// Over returns the configuration with the given flags in the place of what the file says. It does not validate, and c is not changed.
func (f Flags) Over(c v1alpha1.ProxyAgentConfiguration) v1alpha1.ProxyAgentConfiguration {
	give(&c.Client.Kubeconfig, f.Kubeconfig)
	give(&c.NodeName, f.NodeName)
	give(&c.Allocations, f.Allocations)
	give(&c.IPTables.Mode, f.IPTablesMode)
	give(&c.ServiceProxyName, f.ServiceProxyName)
	give(&c.Metrics.BindAddress, f.MetricsBindAddress)
	give(&c.Health.BindAddress, f.HealthBindAddress)
	give(&c.SysctlRoot, f.SysctlRoot)
	give(&c.Log.Level, f.Verbosity)
	if f.ClusterCIDRs != nil {
		cidrs := slices.DeleteFunc(slices.Clone(*f.ClusterCIDRs), func(s string) bool { return s == "" })
		c.DetectLocal = v1alpha1.DetectLocal{Mode: v1alpha1.DetectClusterCIDR, ClusterCIDRs: cidrs}
	}
	if f.MinSyncPeriod != nil {
		c.IPTables.MinSyncPeriod = metav1.Duration{Duration: *f.MinSyncPeriod}
	}
	return c
}

func give[T any](to, value *T) {
	if value != nil {
		*to = *value
	}
}

// NodeName returns the first that is not empty: what was configured, the environment variable NODE_NAME, the host name in the form that
// kubelets register. It fails when all are empty.
func NodeName(configured, environment, host string) (string, error) {
	for _, name := range []string{configured, environment, host} {
		if name = strings.ToLower(strings.TrimSpace(name)); name != "" {
			return name, nil
		}
	}
	return "", errors.New("the name of this machine's Node is not known: " +
		"set --node-name, nodeName in the file, or the environment variable NODE_NAME")
}
