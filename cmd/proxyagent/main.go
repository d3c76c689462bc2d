//go:build linux

// Command proxyagent serves the virtual IPs of Services on a node, with iptables.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/clusterip-operator/clusterip-operator/internal/version"
)

func main() { os.Exit(run(os.Args[1:])) }

// run returns 0 when it did what was asked and 1 when it could not.
func run(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	root := newRoot()
	root.SetArgs(args)
	if err := root.ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		return 1
	}
	return 0
}

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
