package check

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
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/controllers/migration"
	"github.com/clusterip-operator/clusterip-operator/internal/batch"
	"github.com/clusterip-operator/clusterip-operator/plugin/cli"
	"github.com/clusterip-operator/clusterip-operator/plugin/migrate"
)

// checks are what `check` looks for, and what each means.
var checks = map[string]string{
	"IPAddressMissing":     "a Service's address has no IPAddress: another Service may be given it",
	"IPAddressOrphan":      "an IPAddress names a Service that does not exist, and keeps its address from other Services",
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
	"RangeDefaultMissing":       "ServiceCIDR kubernetes does not exist, and the API server has not made it again",
	"APIServiceMissing":         "Service default/kubernetes does not exist, by which pods reach the API server",

	"PolicyNotAccepted":     "the spec of a ServiceCIDRPolicy is invalid, or names what does not exist",
	"PolicyConflicting":     "a ServiceCIDRPolicy lost ranges or addresses to another one",
	"PolicyNotProgrammed":   "what a ServiceCIDRPolicy asks for is not in place",
	"PolicyNotEnforced":     "the API server does not keep strangers out of a policy's ranges",
	"PolicyNotSeen":         "the operator has not looked at a ServiceCIDRPolicy, or at a change of it",
	"PolicyGrowthExhausted": "no further range can be created for a ServiceCIDRPolicy",
	"PolicyGrowthRefused":   "the API server refuses the next range of a ServiceCIDRPolicy",
	"PolicyViolated":        "Services have addresses that an exclusive policy keeps for others",
	"PolicyByServiceLabels": "an exclusive policy selects by labels of Services alone, which their authors choose",

	"WebhooksMissing":    "a webhook of the operator, or the Service by which it is called, is not in the cluster",
	"WebhooksChanged":    "a webhook of the operator is not as its manifests have it",
	"WebhooksUntrusted":  "the API server has no valid authority for a webhook of the operator",
	"EnforcementMissing": "what keeps Services out of exclusive ranges without a webhook is not in the cluster",
	"EnforcementChanged": "what keeps Services out of exclusive ranges without a webhook is not that of this version",
}

// driftChecks are the checks of the types of drift.
var driftChecks = map[string]string{
	"missing": "IPAddressMissing", "orphan": "IPAddressOrphan", "wrong_parent": "IPAddressWrongParent", "wrong_labels": "IPAddressWrongLabels",
	"duplicate": "ClusterIPDuplicate", "out_of_range": "ClusterIPOutOfRange", "invalid": "ClusterIPInvalid", "misspelt": "ClusterIPMisspelt",
}

// New returns the command `check`, by the flags of a session.
func New(a *cli.Session) *cobra.Command {
	var out, namespace string
	var list bool
	etcd := migrate.NewConnection(a)
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Look for everything that is wrong with addresses, ranges, policies and webhooks",
		Long: `Looks for what the operator's controllers look for, by the same functions, whether the operator runs or not: how full ranges are is counted anew. What it
alone knows, as forecasts and overlaps with networks, is what it wrote last; ` + "`status`" + ` says whether it leads. What seems to be wrong with addresses is looked at once more after two seconds. Nothing is changed; ` + "`repair --from FILE`" + ` does what a report says.

Webhook configurations are compared with those of the manifests where the operator is installed. What the user may not read is said on stderr, is no failure, and is
skipped in JUnit.

With --etcd-servers the legacy bitmaps are looked at, too, as ` + "`migrate check`" + ` does.

Exit status: 0 nothing is wrong, 1 something is, 2 it could not be told.`,
		Example: `  kubectl clusterip check
  kubectl clusterip check -o report.yaml && kubectl clusterip repair --from report.yaml --dry-run`,
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if list {
				return listChecks(a)
			}
			return run(cmd.Context(), a, namespace, out, etcd)
		},
	}
	cli.AddFileOutput(cmd, &out, ".yaml, .json or .xml", "junit")
	cmd.Flags().BoolVar(&list, "list", false, "only list the checks, and what they mean")
	NamespaceFlag(cmd, &namespace)
	etcd.AddEtcdFlags(cmd.Flags())
	return cmd
}

// NamespaceFlag adds the flag that names the namespace of the operator. The command refuses what
// can be none, in its PreRunE.
func NamespaceFlag(cmd *cobra.Command, namespace *string) {
	cmd.Flags().StringVar(namespace, "operator-namespace", "clusterip-operator-system", "namespace of the operator")
	cmd.PreRunE = func(*cobra.Command, []string) error {
		if err := cli.ValidNamespace(*namespace); err != nil {
			return fmt.Errorf("--operator-namespace: %w", err)
		}
		return nil
	}
}

func listChecks(a *cli.Session) error {
	l := cli.Listing{Table: metav1.Table{ColumnDefinitions: cli.Columns("CHECK", "MEANS")}}
	all := maps.Clone(checks)
	maps.Copy(all, migration.BitmapKinds())
	for name, means := range all {
		l.Table.Rows = append(l.Table.Rows, metav1.TableRow{Cells: []any{name, means}})
	}
	slices.SortFunc(l.Table.Rows, func(a, b metav1.TableRow) int { return cmp.Compare(a.Cells[0].(string), b.Cells[0].(string)) })
	return (&cli.Output{}).Print(a.Out, l)
}

func run(ctx context.Context, a *cli.Session, namespace, out string, etcd migrate.Connection) error {
	format, file, err := destination(out)
	if err != nil {
		return err
	}
	s, err := a.Open()
	if err != nil {
		return err
	}
	r, err := Look(ctx, s, namespace)
	untold := ""
	if err == nil && etcd.HasEtcd() {
		untold, err = r.addBitmaps(ctx, etcd)
	}
	if err != nil {
		return err
	}
	r.Sort()
	if file == "" {
		err = r.Print(a.Out, format)
	} else {
		err = batch.Replace(file, func(w io.Writer) error { return r.Print(w, format) })
	}
	for _, what := range r.Unknown {
		cli.Write(a.ErrOut, "Not looked at: %s\n", what.Why)
	}
	switch {
	case err != nil:
		return err
	case untold != "":
		return cli.Exit{Code: cli.ExitUnknown, Err: errors.New("not everything could be told: " + untold)}
	case len(r.Items) > 0:
		return cli.Exit{Code: cli.ExitFindings}
	}
	return nil
}

// destination reads -o: a format, or a file whose name tells the format.
func destination(out string) (format, file string, err error) {
	if err := cli.ValidOutput(out, "junit"); err == nil {
		return out, "", nil
	}
	format = map[string]string{".json": "json", ".yaml": "yaml", ".yml": "yaml", ".xml": "junit"}[filepath.Ext(out)]
	if format == "" || cli.IsTemplate(out) {
		return "", "", fmt.Errorf("%w, or a file name that ends in .yaml, .json or .xml", cli.ValidOutput(out, "junit"))
	}
	return format, out, cli.ValidFile("--output", out)
}

// Look looks for everything. namespace is that of the operator.
func Look(ctx context.Context, s *cli.Cluster, namespace string) (Report, error) {
	r := Report{Kind: reportKind, Items: []Item{}}
	v, err := s.View(ctx)
	if err != nil {
		return r, err
	}
	drift, err := v.Audit(ctx)
	if err != nil {
		return r, cli.Permission(err)
	}
	r.AddDrift(drift)
	ranges, policies, err := RangesAndPolicies(ctx, s)
	if err != nil {
		return r, err
	}
	admission, err := r.admission(ctx, s, namespace)
	if err != nil {
		return r, err
	}
	now := s.Clock.Now()
	r.Items = append(r.Items, Conditions(now, counted(ranges.Items, func(o *networkingv1.ServiceCIDR) []metav1.Condition {
		return v.Fullness(o, admission.unsteered(), admission.freePercent)
	}), policies.Items)...)
	r.Items = append(r.Items, admission.Items(now, policies.Items)...)
	defaults, err := LookAtDefaults(ctx, s, ranges.Items, v.Bitmap())
	r.Items, r.Unknown = append(r.Items, defaults.Items()...), append(r.Unknown, defaults.Unknown...)
	return r, err
}

// admission looks at what the API server has of the operator's admission.
func (r *Report) admission(ctx context.Context, s *cli.Cluster, namespace string) (Admission, error) {
	manager, err := Manager(ctx, s, namespace)
	if apierrors.IsForbidden(err) {
		r.Unknown, err = append(r.Unknown, Unknown{"the user may not list Deployments in namespace " + namespace, aboutEnforcement}), nil
	}
	if err != nil {
		return Admission{}, err
	}
	a, err := LookAtAdmission(ctx, s, namespace, manager)
	r.Unknown = append(r.Unknown, a.Unknown...)
	return a, err
}

// addBitmaps checks the bitmaps in etcd and returns what stays unknown. Other checks do the rest.
func (r *Report) addBitmaps(ctx context.Context, etcd migrate.Connection) (untold string, err error) {
	l, err := etcd.Open(ctx)
	if err != nil {
		return "", err
	}
	defer l.Close()
	plan, err := l.Confirmed(ctx, migration.Options{})
	if err != nil {
		return "", fmt.Errorf("looking at the bitmaps: %w", err)
	}
	r.Bitmaps = true
	r.addFindings(plan.Findings)
	return migrate.KindsOf(plan.Findings, migration.Finding.Unknown), nil
}

func (r *Report) addFindings(all []migration.Finding) {
	of := migration.BitmapKinds()
	for _, f := range all {
		if of[string(f.Kind)] == "" {
			continue
		}
		i := Item{Check: string(f.Kind), Object: cmp.Or(strings.Join(f.Objects, ","), "bitmap"), Message: strings.TrimSpace(f.Means + " " + f.Detail)}
		if f.Address.IsValid() {
			i.Address = f.Address.String()
		}
		r.Items = append(r.Items, i)
	}
}
