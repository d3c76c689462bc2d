//go:build linux

// Command proxyagent serves the virtual IPs of Services on a node, with iptables.
package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/clusterip-operator/clusterip-operator/internal/program"
	"github.com/clusterip-operator/clusterip-operator/internal/version"
)

func main() { os.Exit(program.Run(newRoot(), os.Args[1:])) }

func newRoot() *cobra.Command {
	root := newRun()
	root.AddCommand(newCleanup(), newDump(), newVersion(), newWait())
	root.SilenceErrors, root.SilenceUsage = true, true
	root.CompletionOptions.DisableDefaultCmd = true
	return root
}

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version.", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), version.String())
			return err
		},
	}
}

// newWait is for a pod whose init container did the work: its image has no other program to wait.
func newWait() *cobra.Command {
	return &cobra.Command{
		Use: "wait", Short: "Do nothing until asked to end.", Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			<-cmd.Context().Done()
			return nil
		},
	}
}
