package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/controllers/migration"
	"github.com/clusterip-operator/clusterip-operator/internal/batch"
)

// checks are what `check` looks for, and what each means.
var checks = map[string]string{
	"IPAddressMissing":     "a Service's address has no IPAddress: another Service may be given it",
	"IPAddressOrphan":      "an IPAddress names a Service that does not exist, and keeps its address from others",
	"IPAddressWrongParent": "an IPAddress names something that does not have the address",
	"IPAddressWrongLabels": "an IPAddress lacks the labels by which the API server finds its own",
	"ClusterIPDuplicate":   "several Services have one address",
	"ClusterIPOutOfRange":  "no ServiceCIDR offers a Service's address",
	"ClusterIPInvalid":     "an entry of spec.clusterIPs is no address",
	"ClusterIPMisspelt":    "an entry of spec.clusterIPs is not written as its IPAddress is named, which API servers therefore delete",

	"RangeNotReady":             "a ServiceCIDR is not Ready: API servers do not allocate from it",
	"RangeNearlyFull":           "a band of a ServiceCIDR is nearly full, or will be soon",
	"RangeDynamicBandFull":      "no address is free in the dynamic band of a ServiceCIDR",
	"RangeStaticBandFull":       "no address is free in the static band of a ServiceCIDR",
	"RangeNetworkOverlap":       "a ServiceCIDR overlaps a node, pod or declared network",
	"RangeDefaultRangeMismatch": "ServiceCIDR kubernetes is not what the API server was started with",
	"RangeWritesRefused":        "the API server refuses to the operator to write IPAddresses",
	"RangeDeletionBlocked":      "a ServiceCIDR cannot be deleted because addresses are in use",

	"PolicyNotAccepted":     "the spec of a ServiceCIDRPolicy is invalid, or names what does not exist",
	"PolicyConflicting":     "a ServiceCIDRPolicy lost ranges or addresses to another one",
	"PolicyNotProgrammed":   "what a ServiceCIDRPolicy asks for is not in place",
	"PolicyNotEnforced":     "the API server does not keep strangers out of a policy's ranges",
	"PolicyGrowthExhausted": "no further range can be created for a ServiceCIDRPolicy",
	"PolicyViolated":        "Services have addresses that an exclusive policy keeps for others",
	"PolicyByServiceLabels": "an exclusive policy selects by labels of Services alone, which their authors choose",
}

// driftChecks are the checks of the types of drift.
var driftChecks = map[string]string{
	"missing": "IPAddressMissing", "orphan": "IPAddressOrphan", "wrong_parent": "IPAddressWrongParent", "wrong_labels": "IPAddressWrongLabels",
	"duplicate": "ClusterIPDuplicate", "out_of_range": "ClusterIPOutOfRange", "invalid": "ClusterIPInvalid", "misspelt": "ClusterIPMisspelt",
}

func newAudit(a *admin) *cobra.Command {
	var out string
	var list bool
	etcd := connection{kube: a.kube}
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Look for everything that is wrong with addresses, ranges and policies",
		Long: `Looks for what the operator's controllers look for, by the same functions, whether the operator runs or not. What seems to be wrong is looked at once
more after two seconds. Nothing is changed; ` + "`repair --from FILE`" + ` does what a report says.

With --etcd-servers the legacy bitmaps are looked at, too, as ` + "`migrate check`" + ` does.

Exit status: 0 nothing is wrong, 1 something is, 2 it could not be told.`,
		Example: `  kubectl clusterip check
  kubectl clusterip check -o report.yaml && kubectl clusterip repair --from report.yaml --dry-run`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if list {
				return a.listChecks()
			}
			return a.check(cmd.Context(), out, etcd)
		},
	}
	cmd.Flags().StringVarP(&out, "output", "o", "", "output format: json, yaml or junit, or a file that ends in .yaml, .json or .xml; a table without it")
	cmd.Flags().BoolVar(&list, "list", false, "only list the checks, and what they mean")
	etcd.addEtcdFlags(cmd.Flags())
	return cmd
}

func (a *admin) listChecks() error {
	l := listing{table: metav1.Table{ColumnDefinitions: columns("CHECK", "MEANS")}}
	all := maps.Clone(checks)
	maps.Copy(all, migration.BitmapKinds())
	for name, means := range all {
		l.table.Rows = append(l.table.Rows, metav1.TableRow{Cells: []any{name, means}})
	}
	slices.SortFunc(l.table.Rows, func(a, b metav1.TableRow) int { return cmp.Compare(a.Cells[0].(string), b.Cells[0].(string)) })
	return (&output{}).print(a.Out, l)
}

func (a *admin) check(ctx context.Context, out string, etcd connection) error {
	format, file, err := destination(out)
	if err != nil {
		return err
	}
	s, err := a.open()
	if err != nil {
		return err
	}
	r, err := s.report(ctx)
	untold := ""
	if err == nil && len(etcd.etcd.Endpoints) > 0 {
		untold, err = r.addBitmaps(ctx, etcd)
	}
	if err != nil {
		return err
	}
	slices.SortStableFunc(r.Items, item.compare)
	if file == "" {
		err = r.print(a.Out, format)
	} else {
		err = batch.Replace(file, func(w io.Writer) error { return r.print(w, format) })
	}
	switch {
	case err != nil:
		return err
	case untold != "":
		return exit{exitUnknown, errors.New("not everything could be told: " + untold)}
	case len(r.Items) > 0:
		return exit{code: exitFindings}
	}
	return nil
}

// destination reads -o: a format, or a file whose name tells the format.
func destination(out string) (format, file string, err error) {
	if slices.Contains([]string{"", "json", "yaml", "junit"}, out) {
		return out, "", nil
	}
	format = map[string]string{".json": "json", ".yaml": "yaml", ".yml": "yaml", ".xml": "junit"}[filepath.Ext(out)]
	if format == "" {
		return "", "", fmt.Errorf("--output %q is none of json, yaml, junit, or a file name that ends in .yaml, .json or .xml", out)
	}
	return format, out, nil
}

// report looks for everything.
func (s *session) report(ctx context.Context) (checkReport, error) {
	r := checkReport{Kind: reportKind, Items: []item{}}
	v, err := s.view(ctx)
	if err != nil {
		return r, err
	}
	drift, err := v.Audit(ctx)
	if err != nil {
		return r, permission(err)
	}
	r.addDrift(drift)
	ranges, policies, err := s.rangesAndPolicies(ctx)
	if err != nil {
		return r, err
	}
	r.Items = append(r.Items, conditionItems(ranges.Items, policies.Items)...)
	return r, nil
}

// addBitmaps checks the bitmaps in etcd and returns what stays unknown. Other checks do the rest.
func (r *checkReport) addBitmaps(ctx context.Context, etcd connection) (untold string, err error) {
	l, err := etcd.open(ctx)
	if err != nil {
		return "", err
	}
	defer l.close()
	plan, err := l.Confirmed(ctx, migration.Options{})
	if err != nil {
		return "", fmt.Errorf("looking at the bitmaps: %w", err)
	}
	r.Bitmaps = true
	r.addFindings(plan.Findings)
	return kindsOf(plan.Findings, migration.Finding.Unknown), nil
}

func (r *checkReport) addFindings(all []migration.Finding) {
	of := migration.BitmapKinds()
	for _, f := range all {
		if of[string(f.Kind)] == "" {
			continue
		}
		i := item{Check: string(f.Kind), Object: cmp.Or(strings.Join(f.Objects, ","), "bitmap"), Message: strings.TrimSpace(f.Means + " " + f.Detail)}
		if f.Address.IsValid() {
			i.Address = f.Address.String()
		}
		r.Items = append(r.Items, i)
	}
}
