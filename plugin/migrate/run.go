package migrate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/clusterip-operator/clusterip-operator/controllers/migration"
	"github.com/clusterip-operator/clusterip-operator/internal/batch"
	"github.com/clusterip-operator/clusterip-operator/plugin/cli"
)

// running are the flags of run.
type running struct {
	from      string
	dryRun    bool
	pace      batch.Pace
	options   migration.Options
	leakGrace time.Duration
}

func newRun(m *command) *cobra.Command {
	var r running
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Write the IPAddresses and the default ServiceCIDR through the API server",
		Long: `Creates what is missing and mends what is wrong, until an API server that allocates from IPAddresses would find nothing to repair.
It can be interrupted and run again at any moment, and looks anew when the cluster has moved. Services are never changed; what other
managers keep is not touched; nothing at all is written while something is there that it does not understand.`,
		Example: `  kubectl clusterip migrate run
  kubectl clusterip migrate run --from plan.yaml --qps=200`,
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return m.run(cmd.Context(), r) },
	}
	f := cmd.Flags()
	f.StringVar(&r.from, "from", "", "a plan in a file; what it does not list is neither deleted nor replaced")
	f.BoolVar(&r.dryRun, "dry-run", false, "say what would be done, as plan does")
	cli.AddPace(cmd, &r.pace)
	f.DurationVar(&r.leakGrace, "leak-grace", migration.DefaultLeakGrace, "how long a bit must have been leaked before it is cleared; longer than kube-apiserver's --request-timeout")
	addRepair(cmd, &r.options)
	return cmd
}

func (m *command) run(ctx context.Context, r running) error {
	needs := []need{needAPI}
	if r.options.RepairBitmap {
		needs = append(needs, needEtcd)
	}
	switch {
	case !cli.ValidPace(r.pace):
		return cli.ErrPace
	case r.leakGrace < time.Second:
		return errors.New("--leak-grace must be a second or more, and should be longer than kube-apiserver's --request-timeout")
	}
	plan, err := r.plan()
	if err != nil {
		return err
	}
	l, err := m.from.Open(ctx, needs...)
	if err != nil {
		return err
	}
	defer l.Close()
	if err := l.serves(); err != nil {
		return err
	}
	if r.dryRun {
		return m.preview(ctx, l, r.options, false)
	}
	approved, err := approved(ctx, l, plan)
	if err != nil {
		return err
	}
	r.pace.Progress = m.Progress()
	runner := migration.Runner{Sources: l.Sources, Options: r.options, Pace: r.pace, LeakGrace: r.leakGrace}
	result, err := runner.Run(m.Logging(ctx), approved)
	if err == nil {
		m.tellCondition(ctx, l, result.Last)
	}
	return m.tell(result, err, "the plan does not list it")
}

// plan is the one that was given, nil without one.
func (r running) plan() (*migration.Report, error) {
	if r.from == "" {
		return nil, nil
	}
	report, err := migration.LoadPlan(r.from)
	return &report, cli.KindHint(err)
}

// approved are the steps of a plan of this cluster, nil without a plan.
func approved(ctx context.Context, l *Link, plan *migration.Report) ([]migration.Step, error) {
	if plan == nil {
		return nil, nil
	}
	cluster, err := l.Cluster(ctx)
	if err == nil {
		err = plan.Of(cluster, "plan")
	}
	if err != nil {
		return nil, err
	}
	if plan.Steps == nil {
		return []migration.Step{}, nil
	}
	return plan.Steps, nil
}

// preview says what would be done, be it all or only what creates.
func (m *command) preview(ctx context.Context, l *Link, o migration.Options, createOnly bool) error {
	plan, err := l.Confirmed(m.Logging(ctx), o)
	if err != nil {
		return err
	}
	if createOnly {
		plan.Steps = slices.DeleteFunc(plan.Steps, func(s migration.Step) bool { return !s.Creates() })
	}
	if err := m.print(plan, migration.KindPlan, ""); err != nil {
		return err
	}
	return status(plan)
}

// tell says what became of a run, and why steps were withheld, if any were.
func (m *command) tell(r migration.Result, err error, why string) error {
	switch {
	case err != nil && !r.Tried:
		return cli.Exit{Code: cli.ExitUnknown, Err: fmt.Errorf("nothing was written: %w", err)}
	case err != nil:
		return cli.Exit{Code: cli.ExitFindings, Err: fmt.Errorf("%d steps are known to be done, then: %w; run it again when the cause is mended", r.Written, err)}
	}
	m.Say("%d steps done, %d of %d ClusterIPs have their IPAddress", r.Written, r.Last.OK, r.Last.Addresses)
	if r.Fresh > 0 {
		m.Say("%d changes have come since; `migrate verify --watch`, or the operator, keeps up with them", r.Fresh)
	}
	for _, s := range r.Withheld {
		m.Say("not done, because %s: %s %s", why, s.Do, s.What())
	}
	m.list(r.Unsettled)
	if len(r.Withheld)+len(r.Unsettled) > 0 {
		return cli.Exit{Code: cli.ExitFindings}
	}
	return nil
}
