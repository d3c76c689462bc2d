//go:build linux

package main

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/spf13/cobra"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/trace"
)

const traceHelp = `Walk the rules that are in the kernel of this node, as a new connection from SRC to DST does, and say what becomes of it: each rule that
matches, and the endpoints that it may end at. No packet is sent, and no agent has to run.

  proxyagent trace 10.244.1.7 10.96.0.10:53 --protocol udp
  proxyagent trace node [2001:db8::7]:443`

func newTrace() *cobra.Command {
	var mode, protocol, in string
	cmd := &cobra.Command{
		Use: "trace SRC DST:PORT", Short: "Say what the rules in the kernel do with a packet.", Long: traceHelp, Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			o, err := traceOptions(args[0], args[1], protocol)
			if err != nil {
				return err
			}
			if _, err := cleanupModes(mode); err != nil {
				return err
			}
			o.Mode, o.InInterface = mode, in
			return trace.Run(cmd.Context(), cmd.OutOrStdout(), o)
		},
	}
	cmd.Flags().StringVar(&mode, "iptables-mode", "auto", "nft or legacy; auto is the one that has the agent's rules")
	cmd.Flags().StringVar(&protocol, "protocol", "tcp", "tcp, udp or sctp")
	cmd.Flags().StringVar(&in, "in-interface", "", "interface that the packet comes in by (default: the one that leads back to SRC)")
	return cmd
}

// traceOptions reads the words of the command line. SRC may be the word node.
func traceOptions(src, dst, protocol string) (trace.Options, error) {
	var o trace.Options
	var err error
	if src != "node" {
		if o.Src, err = netip.ParseAddr(src); err != nil {
			return o, fmt.Errorf("SRC %q: it has to be an address, or the word node", src)
		}
	}
	if o.Dst, err = netip.ParseAddrPort(dst); err != nil {
		return o, fmt.Errorf("DST %q: it has to be ADDRESS:PORT, with IPv6 addresses in brackets", dst)
	}
	p, known := model.ParseProtocol(strings.ToUpper(protocol))
	if !known {
		return o, fmt.Errorf("--protocol %q: it has to be tcp, udp or sctp", protocol)
	}
	o.Protocol = p
	return o, nil
}
