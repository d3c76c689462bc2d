package check

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterip-operator/clusterip-operator/controllers/ipaddress"
	"github.com/clusterip-operator/clusterip-operator/internal/batch"
	"github.com/clusterip-operator/clusterip-operator/plugin/cli"
)

// NewRepair returns the command `repair`, which carries out a report.
func NewRepair(a *cli.Session) *cobra.Command {
	var from string
	var dryRun bool
	cmd := &cobra.Command{
		Use:   "repair --from FILE",
		Short: "Do what the report of a check says, and nothing else",
		Long: `Carries out the repairs of a report that ` + "`check -o FILE`" + ` has written and an admin has read: lines that are taken out are not repaired. Each repair is refused if the
Service or the IPAddress is not the one, or not in the version, that the report was made of. What is repaired already counts as done, so that the command can be repeated.

Exit status: 0 all is done, 1 something was refused, 2 something failed.`,
		Example: `  kubectl clusterip repair --from report.yaml --dry-run`,
		Args:    cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, err := readReport(from)
			if err != nil {
				return err
			}
			return repair(cmd.Context(), a, r, dryRun)
		},
	}
	cmd.Flags().StringVar(&from, "from", "", "file of the report")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "only say what would be done")
	return cmd
}

func readReport(file string) (r Report, err error) {
	if file == "" {
		return r, errors.New("give the report that is to be carried out: --from FILE; `kubectl clusterip check -o FILE` writes one")
	}
	if err := batch.Load(file, batch.Head{Kind: reportKind}, &r); err != nil {
		return r, cli.KindHint(err)
	}
	for n, i := range r.Items {
		if i.Repair == "" {
			continue
		}
		if _, err := i.finding(); err != nil {
			return r, fmt.Errorf("item %d of %s: %w", n+1, file, err)
		}
	}
	return r, nil
}

// finding is what an item was made of.
func (i Item) finding() (f ipaddress.Finding, err error) {
	f = ipaddress.Finding{Do: i.Repair, ServiceUID: types.UID(i.ServiceUID), IPAddressUID: types.UID(i.IPAddressUID), ResourceVersion: i.ResourceVersion}
	if !slices.Contains([]string{"create", "delete", "replace", "relabel"}, i.Repair) {
		return f, fmt.Errorf("repair %q is none of create, delete, replace, relabel", i.Repair)
	}
	for kind, check := range driftChecks {
		if check == i.Check {
			f.Drift = kind
		}
	}
	if f.Drift == "" {
		return f, fmt.Errorf("check %q repairs nothing", i.Check)
	}
	if f.Address, err = netip.ParseAddr(i.Address); err != nil {
		return f, err
	}
	namespace, name, _ := strings.Cut(i.Owner, "/")
	f.Owner = types.NamespacedName{Namespace: namespace, Name: name}
	return f, nil
}

func repair(ctx context.Context, a *cli.Session, r Report, dryRun bool) error {
	v, err := a.View(ctx)
	if err != nil {
		return err
	}
	var refused int
	var failed error
	for _, i := range r.Items {
		if i.Repair == "" {
			continue
		}
		f, _ := i.finding() // readReport has seen it
		switch now, done, err := v.Repair(ctx, f, dryRun); {
		case err != nil:
			failed = errors.Join(failed, fmt.Errorf("IPAddress %s: %w", i.Address, err))
		case now == nil || now.Do == "":
			cli.Write(a.Out, "%s: nothing is wrong any more that can be repaired\n", i.Address)
		case !now.Same(f) || !done && !dryRun:
			refused++
			cli.Write(a.Out, "%s: refused, it is not as it was when the report was made; check again\n", i.Address)
		case dryRun:
			cli.Write(a.Out, "%s: would %s the IPAddress (%s)\n", i.Address, i.Repair, i.Check)
		default:
			cli.Write(a.Out, "%s: did %s the IPAddress (%s)\n", i.Address, i.Repair, i.Check)
		}
	}
	if failed == nil && refused > 0 {
		return cli.Exit{Code: cli.ExitFindings}
	}
	return failed
}
