//go:build linux

// Command proxyagent-trace says what the kernel of a node does with a packet. It is a program of
// its own so that the agent, which runs for ever, makes no raw packets and has no library for that.
package main

import (
	"fmt"
	"net/netip"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/clusterip-operator/clusterip-operator/cmd/proxyagent-trace/trace"
	"github.com/clusterip-operator/clusterip-operator/internal/program"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
)

const traceHelp = `Send the first packet of a connection from SRC to DST through the rules of this node, and say what becomes of it: each rule that matches, of
whomever it is, as the kernel reports it, and where the packet would go. It is dropped behind the last rule, and no agent has to run. What remains:
counters, a client that session affinity remembers, and the answer that SRC gets from a rule that refuses.

  proxyagent-trace 10.244.1.7 10.96.0.10:53 --protocol udp
  proxyagent-trace node [2001:db8::7]:443`

func main() { os.Exit(program.Run(newRoot(), os.Args[1:])) }

func newRoot() *cobra.Command {
	var protocol, in, agent string
	cmd := &cobra.Command{
		SilenceErrors: true, SilenceUsage: true,
		Use: "proxyagent-trace SRC DST:PORT", Short: "Say what the kernel does with a packet, rule by rule.", Long: traceHelp, Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			o, err := traceOptions(args[0], args[1], protocol)
			if err != nil {
				return err
			}
			o.InInterface, o.Agent = in, agent
			return trace.Run(cmd.Context(), cmd.OutOrStdout(), o)
		},
	}
	cmd.Flags().StringVar(&protocol, "protocol", "tcp", "tcp, udp or sctp")
	cmd.Flags().StringVar(&in, "in-interface", "", "interface that the packet comes in by (default: the one that leads back to SRC)")
	cmd.Flags().StringVar(&agent, "agent", "127.0.0.1:10249", "metrics address of the agent, which is asked what it does at connect()")
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
