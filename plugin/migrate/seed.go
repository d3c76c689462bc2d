package migrate

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/clusterip-operator/clusterip-operator/controllers/migration"
	"github.com/clusterip-operator/clusterip-operator/internal/batch"
	"github.com/clusterip-operator/clusterip-operator/plugin/cli"
)

// consent are the flags of commands that write into etcd.
type consent struct{ etcd, dryRun, plain bool }

func (c *consent) addFlags(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&c.etcd, "etcd", false, "yes, write into etcd, past the API server")
	cmd.Flags().BoolVar(&c.dryRun, "dry-run", false, "say what would be done")
}

func (c consent) check() error {
	if !c.etcd && !c.dryRun {
		return errors.New("this writes into etcd, past the API server: say --etcd if that is what you want, or look first with --dry-run")
	}
	return nil
}

func newSeed(m *command) *cobra.Command {
	var c consent
	cmd := &cobra.Command{
		Use:   "seed",
		Short: "Write the IPAddresses straight into etcd, where no API server serves them",
		Long: `Writes one IPAddress for each ClusterIP into etcd, as API servers that allocate from IPAddresses store them. It only creates: what exists
stays as it is. A note in etcd remembers what was written, for unseed. ServiceCIDRs are not written: the API server creates its own.

With --offline, when the API servers are stopped, it also removes and replaces what the Services of the last moments left behind.

It refuses where API servers encrypt what they store. It cannot see that they would encrypt IPAddresses and nothing else: do not seed such a
cluster unless it accepts plain values (an identity provider).`,
		Example: `  kubectl clusterip migrate seed --etcd --etcd-servers=http://127.0.0.1:2379`,
		Args:    cli.NoArguments,
		RunE:    func(cmd *cobra.Command, _ []string) error { return m.seed(cmd.Context(), c) },
	}
	c.addFlags(cmd)
	cmd.Flags().BoolVar(&c.plain, "plain", false, "the API servers encrypt what they store, and read plain values too")
	return cmd
}

func (m *command) seed(ctx context.Context, c consent) error {
	l, err := m.openEtcd(ctx, c)
	if err != nil {
		return err
	}
	defer l.Close()
	if l.Served {
		return fmt.Errorf("the API server serves IPAddresses (%s): use `migrate run`, which goes through it; nothing was written", l.APIVersion)
	}
	if !c.plain {
		if err := migration.Plain(ctx, l.Store); err != nil {
			return fmt.Errorf("%w; nothing was written", err)
		}
	}
	createOnly, err := onlyCreates(m.Logging(ctx), l)
	if err != nil {
		return err
	}
	if c.dryRun {
		return m.preview(ctx, l, migration.Options{}, createOnly)
	}
	if err := standsStill(m.Logging(ctx), l); err != nil {
		return fmt.Errorf("%w; nothing was written", err)
	}
	runner := migration.Runner{Sources: l.Sources, Pace: batch.Pace{Progress: m.Progress()}, ThroughStore: true, CreateOnly: createOnly}
	result, err := runner.Run(m.Logging(ctx), nil)
	return m.tell(result, err, "seed only creates")
}

// openEtcd reaches etcd, once the admin has said whether to write.
func (m *command) openEtcd(ctx context.Context, c consent) (*Link, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	return m.from.Open(ctx, needEtcd)
}

// standsStill makes sure that --offline means that no API server runs.
func standsStill(ctx context.Context, l *Link) error {
	if l.API != nil {
		return nil
	}
	return migration.NoneAlive(ctx, l.Store)
}

// onlyCreates reports whether what exists has to stay. It need not if no API server runs and the
// cluster used the bitmap to the end: then IPAddresses of Services that went last are leftovers.
func onlyCreates(ctx context.Context, l *Link) (bool, error) {
	snapshot, err := l.Snapshot(ctx)
	return l.API != nil || snapshot.Allocator != migration.AllocatorBitmap, err
}

func newUnseed(m *command) *cobra.Command {
	var c consent
	cmd := &cobra.Command{
		Use:   "unseed",
		Short: "Delete what seed wrote, and no other writer has changed since, from etcd",
		Args:  cli.NoArguments,
		RunE:  func(cmd *cobra.Command, _ []string) error { return m.unseed(cmd.Context(), c) },
	}
	c.addFlags(cmd)
	return cmd
}

func (m *command) unseed(ctx context.Context, c consent) error {
	l, err := m.openEtcd(ctx, c)
	if err != nil {
		return err
	}
	defer l.Close()
	if err := inUse(m.Logging(ctx), l, c.dryRun); err != nil {
		return fmt.Errorf("%w; nothing was deleted", err)
	}
	u, err := migration.Unseed(m.Logging(ctx), l.Store, c.dryRun)
	if err != nil {
		return err
	}
	if c.dryRun {
		m.Say("%d IPAddresses to be deleted, %d kept because another writer has changed them", len(u.Deleted), len(u.Kept))
		if len(u.Deleted) > 0 {
			return cli.Exit{Code: cli.ExitFindings}
		}
		return nil
	}
	m.Say("%d IPAddresses deleted, %d kept because another writer has changed them", len(u.Deleted), len(u.Kept))
	return nil
}

// inUse refuses to take away what API servers allocate from.
func inUse(ctx context.Context, l *Link, dryRun bool) error {
	snapshot, err := l.Snapshot(ctx)
	switch {
	case err != nil:
		return err
	case snapshot.Allocator.WritesIPAddresses():
		return errors.New("the API servers allocate from IPAddresses, so that they are in use; `migrate rollback` is the way back to the bitmap")
	case l.Served:
		return errors.New("the API server serves IPAddresses and holds them in its cache: delete them through it, or stop it and say --offline")
	case dryRun:
		return nil
	}
	return standsStill(ctx, l)
}
