package migrate

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/clusterip-operator/clusterip-operator/controllers/migration"
	"github.com/clusterip-operator/clusterip-operator/controllers/migration/condition"
	"github.com/clusterip-operator/clusterip-operator/plugin/cli"
)

// finalizing are the flags of finalize.
type finalizing struct {
	yes     bool
	archive string
	restore string
}

func newFinalize(m *command) *cobra.Command {
	var f finalizing
	cmd := &cobra.Command{
		Use:   "finalize",
		Short: "Archive and delete the bitmaps, which no API server ever deletes",
		Long: `Deletes the bitmaps of Service addresses from etcd when no API server writes them any more: every one of them must be 1.35 or
later, or 1.34 with the feature gate DisableAllocatorDualWrite on, as it is unless an admin switches it off.
The values are saved in a file first, from which --restore puts them back. Without --yes it says what it would do.`,
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.restore != "" {
				return m.restore(cmd.Context(), f)
			}
			return m.finalize(cmd.Context(), f)
		},
	}
	cmd.Flags().BoolVar(&f.yes, "yes", false, "do it")
	cmd.Flags().StringVar(&f.archive, "archive", defaultArchive, "file for the values")
	cmd.Flags().StringVar(&f.restore, "restore", "", "put the values of this archive back where there are none")
	cmd.MarkFlagsMutuallyExclusive("archive", "restore")
	return cmd
}

func (m *command) finalize(ctx context.Context, f finalizing) error {
	if err := cli.ValidFile("--archive", f.archive); err != nil {
		return err
	}
	l, err := m.from.Open(ctx, needEtcd, needAPI)
	if err != nil {
		return err
	}
	defer l.Close()
	ctx = m.Logging(ctx)
	if err := beyondDualWrite(ctx, l); err != nil {
		return err
	}
	snapshot, err := l.Snapshot(ctx)
	if err != nil {
		return err
	}
	for _, b := range snapshot.Bitmaps {
		m.Say("%s (%s), last written at revision %d", b.Key, migration.Printable(b.Range), b.ModRevision)
	}
	switch {
	case len(snapshot.Bitmaps) == 0:
		m.Say("there are no bitmaps of Service addresses")
	case !f.yes:
		m.Say("nothing was deleted; with --yes they are saved in %s and deleted", f.archive)
		return cli.Exit{Code: cli.ExitFindings}
	}
	if !f.yes {
		return nil
	}
	return m.deleteBitmaps(ctx, l, f.archive)
}

func (m *command) deleteBitmaps(ctx context.Context, l *Link, archive string) error {
	deleted, err := migration.Finalize(ctx, l.Sources, archive)
	if err != nil {
		return fmt.Errorf("%w; nothing was deleted", err)
	}
	if len(deleted) > 0 {
		m.Say("deleted %s; saved in %s", strings.Join(deleted, " and "), archive)
	}
	notes, err := migration.Forget(ctx, l.Store)
	if err != nil {
		return cli.Exit{Code: cli.ExitFindings, Err: err}
	}
	if notes > 0 {
		m.Say("deleted %d notes of a seed", notes)
	}
	m.renewCondition(ctx, l, condition.Finalized())
	return nil
}

// beyondDualWrite makes sure that no API server writes the bitmaps.
func beyondDualWrite(ctx context.Context, l *Link) error {
	servers, err := migration.APIServers(ctx, l.config)
	if err != nil {
		return err
	}
	if len(servers) == 0 {
		return errors.New("the Service default/kubernetes has no endpoints, so the API servers cannot be asked for their versions; nothing was deleted")
	}
	var complaints []error
	for _, s := range servers {
		switch {
		case s.Err != nil:
			complaints = append(complaints, fmt.Errorf("API server %s could not be asked for its version: %w", s.Address, s.Err))
		case s.DualWrites():
			complaints = append(complaints, fmt.Errorf("API server %s is %s and may still write the bitmaps; 1.35 is the first that never does, 1.34 if its feature gate DisableAllocatorDualWrite is on and /metrics tells", s.Address, s.Version.GitVersion))
		}
	}
	if err := errors.Join(complaints...); err != nil {
		return fmt.Errorf("%w; nothing was deleted", err)
	}
	return nil
}

func (m *command) restore(ctx context.Context, f finalizing) error {
	archive, err := migration.LoadArchive(f.restore)
	if err != nil {
		return err
	}
	l, err := m.from.Open(ctx, needEtcd)
	if err != nil {
		return err
	}
	defer l.Close()
	if !f.yes {
		for _, k := range archive.Keys {
			m.Say("%s (%s), of revision %d", k.Key, migration.Printable(k.Range), k.ModRevision)
		}
		m.Say("nothing was written; with --yes they are put back where there are none")
		return cli.Exit{Code: cli.ExitFindings}
	}
	restored, err := migration.Restore(m.Logging(ctx), l.Sources, archive)
	if err != nil {
		return err
	}
	m.renewCondition(ctx, l, condition.Flipped())
	m.Say("%d keys restored", len(restored))
	return nil
}
