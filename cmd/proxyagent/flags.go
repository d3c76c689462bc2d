//go:build linux

package main

import (
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	v1alpha1 "github.com/clusterip-operator/clusterip-operator/api/config/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/config"
)

const runHelp = `Serve the virtual IPs of Services on this node with iptables.

What kube-proxy's iptables mode does, with a tree of chains instead of a list, so that a new connection and a change cost much less in a
cluster with many Services. IPAddress objects decide who owns an address.

  proxyagent --kubeconfig /etc/kubernetes/proxy.conf --cluster-cidr 10.244.0.0/16
  proxyagent --config agent.yaml
  proxyagent --config config.conf                    # kube-proxy's own configuration is understood, too
  proxyagent --service-proxy-name clusterip-operator  # beside kube-proxy, for Services with that label

Flags win over the file. The rules stay when the agent ends; proxyagent cleanup takes them away.`

// flags are those of the command line; each knows whether it was given.
type flags struct {
	file                                                                    string
	kubeconfig, node, allocations, mode, proxyName, metrics, health, sysctl string
	clusterCIDRs                                                            []string
	minSync                                                                 time.Duration
	verbosity                                                               int
	set                                                                     *pflag.FlagSet
}

func (f *flags) register(set *pflag.FlagSet) {
	f.set = set
	set.StringVar(&f.file, "config", "", "configuration file: ProxyAgentConfiguration, or a KubeProxyConfiguration")
	set.StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig file (default: the pod's service account)")
	set.StringVar(&f.node, "node-name", "", "name of this machine's Node (default: $NODE_NAME, then the host name)")
	set.StringVar(&f.allocations, "allocations", "prefer", "prefer, enforce or ignore what IPAddress objects say about who owns a virtual IP")
	set.StringVar(&f.mode, "iptables-mode", "auto", "auto, nft or legacy; auto is the variant that this node uses already")
	set.StringVar(&f.proxyName, "service-proxy-name", "",
		"serve only Services with this value of the label service.kubernetes.io/service-proxy-name (default: those without the label)")
	set.StringSliceVar(&f.clusterCIDRs, "cluster-cidr", nil, "networks of the pods, one of each family; traffic from elsewhere to ClusterIPs is masqueraded")
	set.StringVar(&f.metrics, "metrics-bind-address", "127.0.0.1:10249", "address of /metrics, /configz and /debug/dump; 0 for none")
	set.StringVar(&f.health, "healthz-bind-address", "0.0.0.0:10256", "address of /healthz and /livez; 0 for none")
	set.StringVar(&f.sysctl, "sysctl-root", "/proc/sys", "folder in which kernel settings are written")
	set.DurationVar(&f.minSync, "min-sync-period", time.Second, "pause after a sync in which changes are gathered")
	set.IntVarP(&f.verbosity, "verbosity", "v", 0, "verbosity of the log: 0 for admins, 4 for developers")
}

// configuration joins the file and the flags.
func (f *flags) configuration() (v1alpha1.ProxyAgentConfiguration, []string, error) {
	c, warnings := config.Default(), []string(nil)
	if f.file != "" {
		var err error
		if c, warnings, err = config.Load(f.file); err != nil {
			return c, nil, err
		}
	}
	c = f.given().Over(c)
	host, _ := os.Hostname()
	var err error
	if c.NodeName, err = config.NodeName(c.NodeName, os.Getenv("NODE_NAME"), host); err != nil {
		return c, nil, err
	}
	if err := config.Validate(c); err != nil {
		return c, nil, fmt.Errorf("the configuration has mistakes: %w", err)
	}
	return c, warnings, nil
}

// given are the flags that were on the command line.
func (f *flags) given() config.Flags {
	var g config.Flags
	for name, to := range map[string]func(){
		"kubeconfig":           func() { g.Kubeconfig = &f.kubeconfig },
		"node-name":            func() { g.NodeName = &f.node },
		"allocations":          func() { g.Allocations = &f.allocations },
		"iptables-mode":        func() { g.IPTablesMode = &f.mode },
		"service-proxy-name":   func() { g.ServiceProxyName = &f.proxyName },
		"cluster-cidr":         func() { g.ClusterCIDRs = &f.clusterCIDRs },
		"metrics-bind-address": func() { g.MetricsBindAddress = &f.metrics },
		"healthz-bind-address": func() { g.HealthBindAddress = &f.health },
		"sysctl-root":          func() { g.SysctlRoot = &f.sysctl },
		"min-sync-period":      func() { g.MinSyncPeriod = &f.minSync },
		"verbosity":            func() { g.Verbosity = &f.verbosity },
	} {
		if f.set.Changed(name) {
			to()
		}
	}
	return g
}

func newRun() *cobra.Command {
	f := &flags{}
	cmd := &cobra.Command{
		Use: "proxyagent", Short: "Serve the virtual IPs of Services on this node.", Long: runHelp, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, warnings, err := f.configuration()
			if err != nil {
				return err
			}
			return serve(cmd.Context(), c, warnings)
		},
	}
	f.register(cmd.Flags())
	return cmd
}
