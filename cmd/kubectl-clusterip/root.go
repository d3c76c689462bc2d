package main

import (
	"fmt"
	"runtime/debug"

	"github.com/spf13/cobra"
)

func newRoot(out streams) *cobra.Command {
	kube := newKubeFlags()
	root := &cobra.Command{
		Use:   "kubectl-clusterip",
		Short: "Service virtual IPs of a cluster",
		Long: `Looks after the virtual IPs of Services.

  kubectl clusterip migrate check     compare the legacy bitmap, Services and IPAddresses
  kubectl clusterip migrate --help    the whole way from the bitmap to IPAddresses, and back`,
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl clusterip"},
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          noArguments,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetOut(out.Out)
	root.SetErr(out.ErrOut)
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return fmt.Errorf("%w; try `%s --help`", err, cmd.CommandPath())
	})
	kube.addFlags(root.PersistentFlags())
	root.AddCommand(newMigrate(kube, out), newVersion(out))
	return root
}

// stamped is set by the linker: -X main.stamped=v1.2.3.
var stamped string

func newVersion(out streams) *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: noArguments,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintln(out.Out, version())
			return err
		},
	}
}

func version() string {
	if stamped != "" {
		return stamped
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		return info.Main.Version
	}
	return "unknown"
}
