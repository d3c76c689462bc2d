package dualstack

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/clusterip-operator/clusterip-operator/internal/batch"
	"github.com/clusterip-operator/clusterip-operator/plugin/cli"
)

// New returns the command `dual-stack` with its subcommands.
func New(a *cli.Session) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "dual-stack",
		Short: "Give Services a second family that were created before the cluster had it",
		Long: `Services with the ipFamilyPolicy PreferDualStack that were created while the cluster had one family have one address for ever: the API server adds
no other one by itself. Here they gain it, and nothing else about them changes. Services with another policy are left as their owners want them.

  plan  ──>  read it, take out lines  ──>  run --from FILE

Exit status: 0 nothing is left to be done, 1 there is, 2 it could not be told or nothing was done.`,
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(planCommand(a), runCommand(a))
	return cmd
}

func planCommand(a *cli.Session) *cobra.Command {
	var output, selector string
	cmd := &cobra.Command{
		Use:   "plan",
		Short: "Say which Services would gain a family, or write it to a file; changes nothing",
		Long: `Lists the Services that would gain a family, in all namespaces or that of --namespace. Left out, with the reason, are those which would get an address that nothing answers
at, for no pod and no EndpointSlice of theirs has one of that family (get pods, endpointslices), and those whose spec.ipFamilies a client has written: the API server would refuse
the next apply of that.`,
		Example: `  kubectl clusterip dual-stack plan -o plan.yaml
  kubectl clusterip dual-stack plan -n shop -l tier=web`,
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			which, err := labels.Parse(selector)
			if err != nil {
				return fmt.Errorf("--selector: %w", err)
			}
			return makePlan(cmd.Context(), a, output, which)
		},
	}
	cli.AddPlanOutput(cmd, &output)
	a.AddAllNamespaces(cmd, "Services")
	cmd.Flags().StringVarP(&selector, "selector", "l", "", "labels of the Services, as kubectl takes them")
	return cmd
}

func makePlan(ctx context.Context, a *cli.Session, output string, selector labels.Selector) error {
	if err := cli.ValidPlanOutput(output); err != nil {
		return err
	}
	s, err := a.Open()
	if err != nil {
		return err
	}
	cluster, err := s.UID(a.Logging(ctx))
	if err != nil {
		return err
	}
	plan, err := NewPlan(ctx, s, cluster, a.Namespace(), selector)
	if err != nil {
		return cli.Permission(err)
	}
	if len(plan.Services)+len(plan.LeftOut) == 0 && cli.AsTable(output) {
		cli.Write(a.ErrOut, "No resources found\n")
	}
	if err := a.Put(output, plan, func(w io.Writer) { table(w, plan.Services, plan.LeftOut) }); err != nil {
		return err
	}
	if len(plan.Services) > 0 {
		return cli.Exit{Code: cli.ExitFindings}
	}
	return nil
}

// table lists Services; the caller that flushes w gets its error.
func table(w io.Writer, lists ...[]Item) {
	l := cli.Listing{Table: metav1.Table{ColumnDefinitions: cli.Columns("NAMESPACE", "NAME", "LACKS", "LEFT BECAUSE")}}
	for _, items := range lists {
		for _, i := range items {
			l.Table.Rows = append(l.Table.Rows, metav1.TableRow{Cells: []any{i.Namespace, i.Name, i.Gains, i.Reason}})
		}
	}
	_ = (&cli.Output{}).Print(w, l)
}

// adding are the flags of dual-stack run.
type adding struct {
	from   string
	dryRun bool
	pace   batch.Pace
}

func runCommand(a *cli.Session) *cobra.Command {
	var r adding
	cmd := &cobra.Command{
		Use:   "run --from FILE",
		Short: "Give the Services of a plan their second family",
		Long: `Each Service is looked at once more at the moment of its write, and what others edit meanwhile stays. Services that are gone, were created anew, or do not want two families any
more are left as they are, and named. The command can be interrupted and run again at any moment.`,
		Example: `  kubectl clusterip dual-stack run --from plan.yaml --dry-run
  kubectl clusterip dual-stack run --from plan.yaml --qps=50`,
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return run(cmd.Context(), a, r) },
	}
	cmd.Flags().StringVar(&r.from, "from", "", "a plan in a file")
	cmd.Flags().BoolVar(&r.dryRun, "dry-run", false, "have the API server try each change without storing it")
	cli.AddPace(cmd, &r.pace)
	return cmd
}

func run(ctx context.Context, a *cli.Session, r adding) error {
	switch {
	case r.from == "":
		return errors.New("give the plan that is to be carried out: --from FILE; `kubectl clusterip dual-stack plan -o FILE` writes one")
	case !cli.ValidPace(r.pace):
		return cli.ErrPace
	}
	plan, err := LoadPlan(r.from)
	if err != nil {
		return cli.KindHint(err)
	}
	s, err := a.Open()
	if err != nil {
		return err
	}
	ctx = a.Logging(ctx)
	cluster, err := s.UID(ctx)
	if err == nil {
		err = plan.Of(cluster, "plan")
	}
	if err == nil {
		err = TwoFamilies(ctx, s)
	}
	if err != nil {
		return cli.Permission(err)
	}
	r.pace.Progress = a.Progress()
	result, err := Runner{API: s, Pace: r.pace, DryRun: r.dryRun}.Run(ctx, plan)
	return tell(a, result, err, r.dryRun)
}

// tell says what became of a run.
func tell(a *cli.Session, r Result, err error, dryRun bool) error {
	did := "gained a family"
	if dryRun {
		did = "would gain a family"
	}
	a.Say("%d Services %s, %d had it, %d are left as they are, %d were refused", r.Gained, did, r.Had, len(r.Left), len(r.Refused))
	for _, i := range r.Left {
		a.Say("left: Service %s: %s", i, i.Reason)
	}
	for _, i := range r.Refused {
		a.Say("refused: Service %s: %s", i, i.Reason)
	}
	switch {
	case err != nil && r.Gained == 0:
		return cli.Exit{Code: cli.ExitUnknown, Err: fmt.Errorf("nothing is known to be written: %w", err)}
	case err != nil:
		return cli.Exit{Code: cli.ExitFindings, Err: fmt.Errorf("%w; run it again when the cause is mended", err)}
	case len(r.Refused) > 0:
		return cli.Exit{Code: cli.ExitFindings}
	}
	return nil
}
