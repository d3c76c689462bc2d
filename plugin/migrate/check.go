package migrate

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/clusterip-operator/clusterip-operator/controllers/migration"
	"github.com/clusterip-operator/clusterip-operator/plugin/cli"
)

func newCheck(m *command) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Compare bitmaps, Services and IPAddresses; changes nothing",
		Example: `  kubectl clusterip migrate check
  kubectl clusterip migrate check --etcd-servers=http://127.0.0.1:2379 -o json`,
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return m.check(cmd.Context(), output)
		},
	}
	cli.AddOutput(cmd, &output)
	return cmd
}

func (m *command) check(ctx context.Context, output string) error {
	if err := cli.ValidOutput(output); err != nil {
		return err
	}
	plan, err := m.look(ctx, migration.Options{})
	if err != nil {
		return err
	}
	if err := m.print(plan, migration.KindReport, output); err != nil {
		return err
	}
	return status(plan)
}

// look reads the cluster, twice if something seems to be wrong.
func (m *command) look(ctx context.Context, o migration.Options) (migration.Plan, error) {
	l, err := m.from.Open(ctx)
	if err != nil {
		return migration.Plan{}, err
	}
	defer l.Close()
	return l.Confirmed(m.Logging(ctx), o)
}

// status is the exit status of a look.
func status(p migration.Plan) error {
	switch {
	case slices.ContainsFunc(p.Findings, migration.Finding.Unknown):
		return cli.Exit{Code: cli.ExitUnknown, Err: errors.New("not everything could be told: " + KindsOf(p.Findings, migration.Finding.Unknown))}
	case !p.Clean():
		return cli.Exit{Code: cli.ExitFindings}
	default:
		return nil
	}
}

// KindsOf names the kinds of some findings, each once.
func KindsOf(all []migration.Finding, which func(migration.Finding) bool) string {
	var names []string
	for _, f := range all {
		if which(f) && !slices.Contains(names, string(f.Kind)) {
			names = append(names, string(f.Kind))
		}
	}
	return strings.Join(names, ", ")
}

func newPlan(m *command) *cobra.Command {
	var output string
	var options migration.Options
	cmd := &cobra.Command{
		Use:   "plan",
		Short: "Say what run would do, or write it to a file; changes nothing",
		Long: `Says what run would do. A plan in a file can be read, agreed upon, and given to ` + "`run --from`" + `, which then deletes and replaces nothing
that is not in it.`,
		Example: `  kubectl clusterip migrate plan -o plan.yaml`,
		Args:    cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return m.plan(cmd.Context(), output, options)
		},
	}
	cli.AddPlanOutput(cmd, &output)
	addRepair(cmd, &options)
	return cmd
}

func addRepair(cmd *cobra.Command, o *migration.Options) {
	cmd.Flags().BoolVar(&o.RepairBitmap, "repair-bitmap", false, "also make the bitmap agree with the Services (needs --etcd-servers)")
}

func (m *command) plan(ctx context.Context, output string, o migration.Options) error {
	if err := cli.ValidPlanOutput(output); err != nil {
		return err
	}
	if o.RepairBitmap && len(m.from.etcd.Endpoints) == 0 {
		return errors.New("--repair-bitmap needs --etcd-servers")
	}
	plan, err := m.look(ctx, o)
	if err != nil {
		return err
	}
	if err := m.print(plan, migration.KindPlan, output); err != nil {
		return err
	}
	return status(plan)
}
