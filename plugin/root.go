package plugin

import (
	"cmp"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/clusterip-operator/clusterip-operator/internal/version"
	"github.com/clusterip-operator/clusterip-operator/plugin/bundle"
	"github.com/clusterip-operator/clusterip-operator/plugin/check"
	"github.com/clusterip-operator/clusterip-operator/plugin/cli"
	"github.com/clusterip-operator/clusterip-operator/plugin/console"
	"github.com/clusterip-operator/clusterip-operator/plugin/dualstack"
	"github.com/clusterip-operator/clusterip-operator/plugin/health"
	"github.com/clusterip-operator/clusterip-operator/plugin/inspect"
	"github.com/clusterip-operator/clusterip-operator/plugin/migrate"
	"github.com/clusterip-operator/clusterip-operator/plugin/renumber"
	"github.com/clusterip-operator/clusterip-operator/plugin/reserve"
)

// New returns the root command, which writes to out and reads its arguments from the command line
// unless they are set.
func New(out cli.Streams) *cobra.Command {
	a := cli.NewSession(out)
	root := &cobra.Command{
		Use:   "kubectl-clusterip",
		Short: "Service virtual IPs of a cluster",
		Long: `Looks after the virtual IPs of Services.

  kubectl clusterip ranges            how full every ServiceCIDR is, and when it will be
  kubectl clusterip addresses         the addresses in use, with who has them; show ADDRESS tells all of one, history ADDRESS who had it
  kubectl clusterip node-ports        the node ports in use, with who has them; ranges --node-ports says how many are left
  kubectl clusterip map RANGE         the address space, drawn
  kubectl clusterip why ...           why a Service has this address or is refused, or a range does not go
  kubectl clusterip status            is the operator well
  kubectl clusterip check             what is wrong; repair --from FILE mends what a report of it says
  kubectl clusterip bundle            what an issue needs, in one archive without names of tenants
  kubectl clusterip console           all of this in a browser
  kubectl clusterip renumber ...      move Services to another range without losing a connection
  kubectl clusterip dual-stack plan   which Services lack the second family; run --from FILE gives it to them
  kubectl clusterip reserve ...       keep the addresses of Services for them, so that they come back with theirs
  kubectl clusterip migrate check     compare the legacy bitmap, Services and IPAddresses
  kubectl clusterip migrate --help    the whole way from the bitmap to IPAddresses, and back`,
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl clusterip"},
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cli.NoArguments,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },

		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error { return cmp.Or(emptyFlag(cmd), a.Validate()) },
	}
	root.SetOut(out.Out)
	root.SetErr(out.ErrOut)
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return fmt.Errorf("%w; try `%s --help`", err, cmd.CommandPath())
	})
	a.AddFlags(root.PersistentFlags())
	_ = root.RegisterFlagCompletionFunc("namespace", a.Complete(cli.KindNamespace, 0)) // fails for a flag that there is not
	root.AddCommand(inspect.NewRanges(a), inspect.NewAddresses(a), inspect.NewNodePorts(a), inspect.NewMap(a), inspect.NewWhy(a), health.New(a), check.New(a), check.NewRepair(a), bundle.New(a), console.New(a), renumber.New(a), dualstack.New(a), reserve.New(a), migrate.New(a), newCompletion(out), newVersion(out))
	return root
}

// emptyFlag refuses a flag that is given and empty, as by a script whose variable is not set: the
// command would go on as if the flag were not there. Those of kubectl, and an empty -o, mean what
// they mean there.
func emptyFlag(cmd *cobra.Command) (err error) {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		kubectls := f.Name == "output" || cmd.Root().PersistentFlags().Lookup(f.Name) != nil
		if value := f.Value.String(); !kubectls && (value == "" || value == "[]") {
			err = cmp.Or(err, fmt.Errorf("--%s is empty; give it a value, or leave it out", f.Name))
		}
	})
	return err
}

func newVersion(out cli.Streams) *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: cli.NoArguments,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintln(out.Out, version.String())
			return err
		},
	}
}

// newCompletion writes kubectl_complete-clusterip, which kubectl finds in the PATH and runs.
func newCompletion(out cli.Streams) *cobra.Command {
	return &cobra.Command{
		Use: "completion", Short: "Write the program kubectl_complete-clusterip, by which kubectl completes words", Args: cli.NoArguments,
		Example: `  kubectl clusterip completion >/usr/local/bin/kubectl_complete-clusterip && chmod +x /usr/local/bin/kubectl_complete-clusterip`,
		RunE: func(*cobra.Command, []string) error {
			_, err := io.WriteString(out.Out, "#!/bin/sh\nexec kubectl-clusterip __complete \"$@\"\n")
			return err
		},
	}
}
