package inspect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/plugin/cli"
)

// NewRanges returns the command `ranges`.
func NewRanges(a *cli.Session) *cobra.Command {
	var out cli.Output
	var follow, nodePorts bool
	var contexts []string
	ports := newNodePortRange()
	cmd := &cobra.Command{
		Use:     "ranges [NAME...]",
		Aliases: []string{"range"},
		Short:   "How full every ServiceCIDR is, and when it will be",
		Long: `Lists every range of every ServiceCIDR, the one that is full first at the top.

USED, RESERVED and COOLING count addresses, each of them once; STATIC is how much of the static band (KEP-3070) is not free, which is kept for addresses that people choose.
FULL-IN is when the range is full if it goes on growing as in the last hours. The counts are those of the operator:
a hundredth of a band that moved shows within a minute, less than that within ten.
Without the operator all Services and IPAddresses are listed and counted, and nothing is known about growth.

--node-ports tells of the range of node ports instead, by its bands (KEP-3668).

With --contexts the ranges of several clusters are one list, and OVERLAPS has the contexts of clusters that have some of the addresses too: such clusters cannot be joined into one mesh.
A cluster that does not answer within half a minute (--request-timeout) is said, and the others are shown.

Exit status with --contexts: 0 no ranges overlap, 1 some do, 2 not all clusters could be asked.`,
		Example: `  kubectl clusterip ranges
  kubectl clusterip ranges --node-ports
  kubectl clusterip ranges -o wide --watch
  kubectl clusterip ranges --contexts=berlin,paris,oslo`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := out.Validate(); err != nil {
				return err
			}
			names, err := rangeArguments(args)
			switch {
			case err != nil:
				return err
			case nodePorts && (follow || len(names)+len(contexts) > 0):
				return errors.New("--node-ports is about the one range of node ports: leave out names, --contexts and --watch")
			case nodePorts:
				return printNodePortBands(cmd.Context(), a, ports.Range, out)
			case cmd.Flags().Changed("node-port-range"):
				return errors.New("--node-port-range is for --node-ports")
			}
			if cmd.Flags().Changed("contexts") {
				return printFleet(cmd, a, contexts, names, out, follow)
			}
			return printRanges(cmd.Context(), a, names, out, follow)
		},
	}
	const many = 1000
	cmd.ValidArgsFunction = a.Complete(cli.KindRange, many)
	out.AddFlags(cmd)
	cmd.Flags().BoolVarP(&follow, "watch", "w", false, "after the list, print each ServiceCIDR that changes")
	cmd.Flags().BoolVar(&nodePorts, "node-ports", false, "how many node ports are left, in place of addresses")
	ports.addFlag(cmd)
	cmd.Flags().StringSliceVar(&contexts, "contexts", nil, "contexts of the kubeconfig, separated by commas: the ranges of all their clusters, and which overlap")
	_ = cmd.RegisterFlagCompletionFunc("contexts", a.CompleteContexts) // fails for a flag that there is not
	return cmd
}

// list is what -o json and yaml print.
type list[T any] struct {
	Kind  string `json:"kind"`
	Items []T    `json:"items"`
}

// Ranges are those of a cluster as `ranges` lists them.
func Ranges(ctx context.Context, s *cli.Cluster) (cli.Listing, error) {
	list, policies, err := s.RangesAndPolicies(ctx)
	if err != nil {
		return cli.Listing{}, err
	}
	all, err := rangeInfos(ctx, s, list.Items, policies.Items)
	return listRanges(all, s.Clock.Now()), err
}

func printRanges(ctx context.Context, a *cli.Session, names []string, out cli.Output, follow bool) error {
	s, err := a.Open()
	if err != nil {
		return err
	}
	list, policies, err := s.RangesAndPolicies(ctx)
	if err != nil {
		return err
	}
	all, err := rangeInfos(ctx, s, list.Items, policies.Items)
	if err != nil {
		return err
	}
	if len(names) > 0 {
		if all, err = only(all, names); err != nil {
			return err
		}
	}
	if err := out.List(a.Streams, listRanges(all, time.Now())); err != nil || !follow {
		return err
	}
	return watchRanges(ctx, a, s, list.ResourceVersion, policies.Items, names, out)
}

// only keeps the ranges of the named ServiceCIDRs.
func only(all []Range, names []string) (some []Range, err error) {
	for _, name := range names {
		if !slices.ContainsFunc(all, func(r Range) bool { return r.ServiceCIDR == name }) {
			return nil, absent("ServiceCIDR", name, rangeNames(all), "kubectl clusterip ranges")
		}
	}
	return slices.DeleteFunc(all, func(r Range) bool { return !slices.Contains(names, r.ServiceCIDR) }), nil
}

// watchRanges prints what changes until the user has seen enough.
func watchRanges(ctx context.Context, a *cli.Session, s *cli.Cluster, from string, policies []v1alpha1.ServiceCIDRPolicy, names []string, out cli.Output) error {
	w, err := s.Watch(ctx, &networkingv1.ServiceCIDRList{}, &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: from}})
	if err != nil {
		return fmt.Errorf("watching ServiceCIDRs: %w", cli.Permission(err))
	}
	defer w.Stop()
	out.NoHeaders = true
	for event := range w.ResultChan() {
		o, ok := event.Object.(*networkingv1.ServiceCIDR)
		if !ok || event.Type == watch.Deleted || len(names) > 0 && !slices.Contains(names, o.Name) {
			continue
		}
		all, err := rangeInfos(ctx, s, []networkingv1.ServiceCIDR{*o}, policies)
		if err == nil {
			err = out.Print(a.Out, listRanges(all, time.Now()))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func listRanges(all []Range, now time.Time) cli.Listing {
	l := cli.Listing{Value: list[Range]{"RangeList", append([]Range{}, all...)}, Table: metav1.Table{ColumnDefinitions: cli.Columns(
		"NAME", "CIDR", "SIZE", "USED", "FREE", "RESERVED", "COOLING", "STATIC", "FULL-IN", "READY", "+FAMILY", "+POLICIES", "+AGE", "+BLOCKED-BY")}}
	for _, r := range all {
		l.Names = append(l.Names, "servicecidr.networking.k8s.io/"+r.ServiceCIDR)
		l.Table.Rows = append(l.Table.Rows, metav1.TableRow{Cells: []any{
			r.ServiceCIDR, r.CIDR, number(r.size()), fmt.Sprintf("%d (%.0f%%)", r.Static.Allocated+r.Dynamic.Allocated, r.share()),
			number(float64(r.Static.Free) + float64(r.Dynamic.Free)), r.Static.Reserved + r.Dynamic.Reserved, r.Static.Cooling + r.Dynamic.Cooling, r.static(),
			r.forecast(), r.ready(), r.Family, r.policies(), duration.HumanDuration(now.Sub(r.Created.Time)), cmp.Or(r.BlockedBy, "<none>"),
		}})
	}
	slices.Sort(l.Names)
	l.Names = slices.Compact(l.Names)
	return l
}

// number prints what a person would: 2^64 is no count.
func number(n float64) string {
	if n > 1e15 {
		return fmt.Sprintf("2^%.0f", math.Log2(n))
	}
	return fmt.Sprintf("%.0f", n)
}

func (r Range) static() string {
	if r.Static.Size == 0 {
		return "<none>"
	}
	return fmt.Sprintf("%.0f%%", percent(float64(r.Static.Size-r.Static.Free), float64(r.Static.Size)))
}

func (r Range) forecast() string {
	switch {
	case r.fullIn() == 0:
		return "full"
	case r.FullInSeconds != nil:
		return duration.HumanDuration(time.Duration(*r.FullInSeconds) * time.Second)
	case r.Dynamic.GrowthPerDay == nil && r.Static.GrowthPerDay == nil:
		return "<unknown>"
	default:
		return "<none>"
	}
}

// outlook is the forecast in words.
func (r Range) outlook() string {
	switch soon := r.forecast(); soon {
	case "full":
		return soon
	case "<unknown>":
		return "and it is not known how it grows"
	case "<none>":
		return "and it does not grow"
	default:
		return "full in " + soon
	}
}

func (r Range) ready() string {
	switch {
	case r.BlockedBy != "":
		return "Blocked"
	case r.Terminating:
		return "Terminating"
	case r.Ready:
		return "True"
	default:
		return "False"
	}
}

func (r Range) policies() string {
	var texts []string
	for _, name := range r.Policies {
		var as []string
		for _, of := range []struct {
			names []string
			text  string
		}{{r.Exclusive, "exclusive"}, {r.ByRequest, "by request"}, {r.Cordoned, "cordoned"}} {
			if slices.Contains(of.names, name) {
				as = append(as, of.text)
			}
		}
		if len(as) > 0 {
			name += " (" + strings.Join(as, ", ") + ")"
		}
		texts = append(texts, name)
	}
	return cmp.Or(strings.Join(texts, ","), "<none>")
}
