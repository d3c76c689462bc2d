//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

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

// flags are a command line. It is read again, over a configuration, when the file is known.
type flags struct {
	set  *pflag.FlagSet
	file string
}

// bind registers the flags, each for a field of a configuration whose value is the default.
func bind(set *pflag.FlagSet, file *string, c *v1alpha1.ProxyAgentConfiguration) {
	set.StringVar(file, "config", "", "configuration file: ProxyAgentConfiguration, or a KubeProxyConfiguration")
	set.StringVar(&c.Client.Kubeconfig, "kubeconfig", c.Client.Kubeconfig, "kubeconfig file (default: the pod's service account)")
	set.StringVar(&c.NodeName, "node-name", c.NodeName, "name of this machine's Node (default: $NODE_NAME, then the host name)")
	set.StringVar(&c.Allocations, "allocations", c.Allocations, "prefer, enforce or ignore what IPAddress objects say about who owns a virtual IP")
	set.StringVar(&c.Mode, "mode", c.Mode, "iptables, nftables, ipvs or auto; auto is nftables where no other program has rules of iptables")
	set.StringVar(&c.IPTables.Mode, "iptables-mode", c.IPTables.Mode, "auto, nft or legacy; auto is the variant that this node uses already")
	set.StringVar(&c.ServiceProxyName, "service-proxy-name", c.ServiceProxyName,
		"serve only Services with this value of the label service.kubernetes.io/service-proxy-name (default: those without the label)")
	set.BoolVar(&c.FollowNodes, "follow-nodes", c.FollowNodes, "let Services weigh endpoints by cores and labels of nodes, for which the agent follows all Nodes")
	set.StringSliceVar(&c.DetectLocal.ClusterCIDRs, clusterCIDR, c.DetectLocal.ClusterCIDRs,
		"networks of the pods, one of each family; traffic from elsewhere to ClusterIPs is masqueraded")
	set.StringVar(&c.Metrics.BindAddress, "metrics-bind-address", c.Metrics.BindAddress, "address of /metrics, /configz and /debug/dump; 0 for none")
	set.StringVar(&c.Health.BindAddress, "healthz-bind-address", c.Health.BindAddress, "address of /healthz and /livez; 0 for none")
	set.StringVar(&c.SocketLB.Scope, "socket-lb-scope", c.SocketLB.Scope,
		"whose TCP connections to ClusterIPs are translated at connect(), instead of by rules: off, pods, host or all")
	set.StringVar(&c.SocketLB.CgroupRoot, "cgroup-root", c.SocketLB.CgroupRoot, "folder of the machine's cgroups, for --socket-lb-scope")
	set.StringVar(&c.SysctlRoot, "sysctl-root", c.SysctlRoot, "folder in which kernel settings are written")
	set.DurationVar(&c.MinSyncPeriod.Duration, "min-sync-period", c.MinSyncPeriod.Duration, "pause after a sync in which changes are gathered")
	set.IntVarP(&c.Log.Level, "verbosity", "v", c.Log.Level, "verbosity of the log: 0 for admins, 4 for developers")
}

// clusterCIDR is the flag that also says how local pods are told.
const clusterCIDR = "cluster-cidr"

func (f *flags) register(set *pflag.FlagSet) {
	f.set = set
	c := v1alpha1.DefaultProxyAgent()
	bind(set, &f.file, &c)
}

// configuration joins file and flags: the flags that were given are read once more, over the file.
func (f *flags) configuration() (c v1alpha1.ProxyAgentConfiguration, warnings []string, err error) {
	c = v1alpha1.DefaultProxyAgent()
	if f.file != "" {
		mode := "" // the file's
		if f.set.Changed("mode") {
			mode = f.set.Lookup("mode").Value.String()
		}
		if c, warnings, err = config.Load(f.file, mode); err != nil {
			return c, nil, err
		}
	}
	if f.set.Changed(clusterCIDR) {
		c.DetectLocal = v1alpha1.DetectLocal{Mode: v1alpha1.DetectClusterCIDR}
	}
	over := pflag.NewFlagSet("", pflag.ContinueOnError)
	bind(over, new(string), &c)
	f.set.Visit(func(given *pflag.Flag) {
		text := given.Value.String()
		if list, ok := given.Value.(pflag.SliceValue); ok {
			text = strings.Join(list.GetSlice(), ",")
		}
		err = errors.Join(err, over.Set(given.Name, text))
	})
	if err != nil {
		return c, nil, err
	}
	host, _ := os.Hostname()
	if c.NodeName, err = config.NodeName(c.NodeName, os.Getenv("NODE_NAME"), host); err != nil {
		return c, nil, err
	}
	if err := c.Validate().ToAggregate(); err != nil {
		return c, nil, fmt.Errorf("the configuration has mistakes: %w", err)
	}
	return c, warnings, nil
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
