package migrate

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/clusterip-operator/clusterip-operator/controllers/migration"
	"github.com/clusterip-operator/clusterip-operator/plugin/cli"
)

// defaultArchive is where old values are saved unless the user says otherwise.
const defaultArchive = "clusterip-bitmaps.json"

// rollingBack are the flags of rollback.
type rollingBack struct {
	yes, live bool
	archive   string
}

func newRollback(m *command) *cobra.Command {
	var r rollingBack
	cmd := &cobra.Command{
		Use:   "rollback",
		Short: "Rebuild the bitmaps from the Services, for a return to the old allocator",
		Long: `Builds the bitmaps of both families from the ClusterIPs that Services hold, so that an API server of 1.32 finds every bit where it belongs,
and stores IPAddresses and ServiceCIDRs in the version that it can read. Old values are saved in a file first.

Without --yes it says what it would change. The order of things:

  1. stop the API servers       2. kubectl clusterip migrate rollback --offline --yes       3. start the older API servers`,
		Example: `  kubectl clusterip migrate rollback --offline --etcd-servers=http://127.0.0.1:2379
  kubectl clusterip migrate rollback --offline --etcd-servers=http://127.0.0.1:2379 --yes`,
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return m.rollback(cmd.Context(), r) },
	}
	cmd.Flags().BoolVar(&r.yes, "yes", false, "do it")
	cmd.Flags().BoolVar(&r.live, "live", false, "also while an API server runs: what it allocates from IPAddresses later is not in the bitmaps, and Services under creation may lose their bits")
	cmd.Flags().StringVar(&r.archive, "archive", defaultArchive, "file for the old values")
	return cmd
}

func (m *command) rollback(ctx context.Context, r rollingBack) error {
	if err := cli.ValidFile("--archive", r.archive); err != nil {
		return err
	}
	l, err := m.from.Open(ctx, needEtcd)
	if err != nil {
		return err
	}
	defer l.Close()
	ctx = m.Logging(ctx)
	rollback, err := plannedRollback(ctx, l)
	if err != nil {
		return err
	}
	m.tellRollback(rollback)
	switch {
	case len(rollback.Refused) > 0:
		return cli.Exit{Code: cli.ExitUnknown, Err: fmt.Errorf("nothing was written: %s", KindsOf(rollback.Refused, func(migration.Finding) bool { return true }))}
	case rollback.Nothing():
		m.Say("nothing to do: every bit is as the Services want it")
		return nil
	case !r.yes:
		m.Say("nothing was written; with --yes it will be")
		return cli.Exit{Code: cli.ExitFindings}
	}
	if err := r.permitted(ctx, l, rollback); err != nil {
		return fmt.Errorf("%w; nothing was written", err)
	}
	if err := rollback.Save(ctx, l.Store, r.archive); err != nil {
		return fmt.Errorf("%w; nothing was written", err)
	}
	if err := migration.RollBack(ctx, l.Store, rollback, m.Progress()); err != nil {
		return cli.Exit{Code: cli.ExitFindings, Err: fmt.Errorf("%w; run it again", err)}
	}
	return m.confirmRollback(ctx, l)
}

// permitted refuses what goes wrong beside an API server.
func (r rollingBack) permitted(ctx context.Context, l *Link, planned migration.Rollback) error {
	switch {
	case r.live:
		return nil
	case l.API == nil:
		return migration.NoneAlive(ctx, l.Store)
	case l.Served && planned.Snapshot.Allocator != migration.AllocatorBitmap:
		return errors.New("an API server allocates from IPAddresses, so that the bitmaps would be out of date at once: stop the API servers and say --offline, or say --live")
	case planned.Risky():
		return errors.New("a Service that an API server is creating at this moment would lose its bit: stop the API servers and say --offline, or say --live " +
			"(`run --repair-bitmap` clears leaked bits of a living cluster, and waits for such Services)")
	default:
		return nil
	}
}

func plannedRollback(ctx context.Context, l *Link) (migration.Rollback, error) {
	snapshot, err := l.Snapshot(ctx)
	if err != nil {
		return migration.Rollback{}, err
	}
	rollback, err := migration.NewRollback(snapshot)
	if err != nil {
		return migration.Rollback{}, err
	}
	rollback.Rewrites, err = migration.CountRewrites(ctx, l.Store)
	return rollback, err
}

// confirmRollback looks again.
func (m *command) confirmRollback(ctx context.Context, l *Link) error {
	again, err := plannedRollback(ctx, l)
	switch {
	case err != nil:
		return cli.Exit{Code: cli.ExitFindings, Err: fmt.Errorf("done, but it could not be looked at again: %w", err)}
	case !again.Nothing() || len(again.Refused) > 0:
		return cli.Exit{Code: cli.ExitFindings, Err: errors.New("meanwhile Services have come or gone; run it again when the API servers are stopped")}
	}
	m.Say("done: every bit is as the Services want it")
	return nil
}

func (m *command) tellRollback(r migration.Rollback) {
	for _, b := range r.Bitmaps {
		note := ""
		if b.Broken != nil {
			note = fmt.Sprintf("; the old value is replaced: %v", b.Broken)
		}
		m.Say("%s (%s): %d addresses; %d bits to set, %d to clear%s", b.Key, b.Bitmap, b.Bitmap.Len(), b.Set, b.Cleared, note)
	}
	if r.Rewrites > 0 {
		m.Say("%d IPAddresses and ServiceCIDRs to be stored as networking.k8s.io/v1beta1, which 1.32 can read", r.Rewrites)
	}
	if n := len(r.Reserved); n > 0 {
		m.Say("%d IPAddresses have no Service, %s first; a bitmap cannot keep them, so these addresses become free", n, r.Reserved[0])
	}
	m.list(r.Refused)
}
