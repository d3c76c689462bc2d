//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/ipset"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/iptables"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/iptables/rules"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/ipvs"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/nftables"
)

const cleanupHelp = `Take away all chains, jumps, sets and tables of the agent, in both variants of iptables and both families, and its virtual servers in IPVS with their addresses. Nothing of others is touched.
Stop the agent first, or it recreates them.

  proxyagent cleanup --dry-run
  proxyagent cleanup --kube-proxy   # what kube-proxy left behind, in iptables, nftables and IPVS mode, instead`

func newCleanup() *cobra.Command {
	var mode string
	var dryRun, kubeProxy bool
	cmd := &cobra.Command{
		Use: "cleanup", Short: "Take away what the agent left in the kernel.", Long: cleanupHelp, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			modes, err := cleanupModes(mode)
			if err != nil {
				return err
			}
			did, err := cleanup(cmd.Context(), modes, kubeProxy, dryRun)
			word := "removed"
			if dryRun {
				word = "would remove"
			}
			for _, what := range did {
				_, _ = fmt.Fprintf(cmd.OutOrStdout(), "%s %s\n", word, what)
			}
			if routesLocalnet() && !kubeProxy {
				_, _ = fmt.Fprintln(cmd.OutOrStdout(), "net.ipv4.conf.all.route_localnet is 1 and stays: set it to 0 if no other proxy serves node ports at 127.0.0.1")
			}
			if len(did) == 0 && err == nil {
				_, _ = fmt.Fprintln(cmd.OutOrStdout(), "nothing to remove")
			}
			return err
		},
	}
	cmd.Flags().StringVar(&mode, "iptables-mode", "auto", "nft or legacy to look at one variant only; auto looks at both")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "only say what would be removed")
	cmd.Flags().BoolVar(&kubeProxy, "kube-proxy", false, "remove the rules of kube-proxy instead of ours")
	return cmd
}

// routesLocalnet reports whether neighbours could reach loopback addresses if nothing dropped them
// (CVE-2020-8558). The agent sets it, and kube-proxy leaves it as well: its owner is unknown.
func routesLocalnet() bool {
	value, err := os.ReadFile("/proc/sys/net/ipv4/conf/all/route_localnet")
	return err == nil && strings.TrimSpace(string(value)) == "1"
}

func cleanupModes(s string) ([]iptables.Mode, error) {
	switch s {
	case "auto", "":
		return []iptables.Mode{iptables.NFT, iptables.Legacy}, nil
	case "nft", "legacy":
		return []iptables.Mode{iptables.Mode(s)}, nil
	default:
		return nil, fmt.Errorf("--iptables-mode %q: it has to be auto, nft or legacy", s)
	}
}

func cleanup(ctx context.Context, modes []iptables.Mode, kubeProxy, dryRun bool) ([]string, error) {
	o := iptables.CleanupOptions{Modes: modes, KubeProxy: kubeProxy, DryRun: dryRun}
	if len(modes) > 1 {
		sets, err := ipset.Open()
		if err != nil {
			return nil, fmt.Errorf("reaching the kernel's sets (this needs NET_ADMIN): %w", err)
		}
		defer sets.Close()
		o.Sets = sets
	}
	var all []string
	var problems error
	for _, f := range []model.Family{model.IPv4, model.IPv6} {
		if !hasFamily(f) {
			continue
		}
		o.Family = f
		if len(modes) > 1 { // before the sets that tell of node ports go
			balancer := ipvs.CleanupOptions{Family: f, KubeProxy: kubeProxy, DryRun: dryRun}
			if kubeProxy {
				balancer.NodePorts = kubeProxyNodePorts(ctx, o.Sets, f)
			}
			did, err := ipvs.Cleanup(ctx, balancer)
			all, problems = append(all, did...), errors.Join(problems, err)
		}
		did, err := iptables.Cleanup(ctx, o)
		all, problems = append(all, did...), errors.Join(problems, err)
		if len(modes) > 1 || kubeProxy {
			did, err := nftables.Cleanup(f, kubeProxy, dryRun)
			all, problems = append(all, did...), errors.Join(problems, err)
		}
	}
	return all, problems
}

// kubeProxyNodePorts are those in the sets of kube-proxy's mode ipvs. An unreadable set has none.
func kubeProxyNodePorts(ctx context.Context, sets iptables.Sets, f model.Family) map[model.Protocol]map[uint16]bool {
	all := map[model.Protocol]map[uint16]bool{}
	for protocol, name := range map[model.Protocol]string{model.TCP: "NODE-PORT-TCP", model.UDP: "NODE-PORT-UDP", model.SCTP: "NODE-PORT-SCTP-HASH"} {
		entries, _ := sets.Entries(ctx, rules.KubeProxySets(f)+name)
		all[protocol] = map[uint16]bool{}
		for e := range entries {
			all[protocol][e.Port] = true
		}
	}
	return all
}
