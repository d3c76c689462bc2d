package inspect

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterip-operator/clusterip-operator/plugin/cli"
	"github.com/clusterip-operator/clusterip-operator/plugin/view"
)

// filter says which addresses are listed; an empty field lets all pass.
type filter struct{ serviceCIDR, band, namespace, state, parent, policy string }

func (f filter) matches(a view.Address) bool {
	is := func(want, has string) bool { return want == "" || want == has }
	return is(f.band, a.Band) && is(f.state, a.State) && is(f.policy, a.Policy) &&
		(f.serviceCIDR == "" || slices.Contains(a.ServiceCIDRs, f.serviceCIDR)) &&
		(f.namespace == "" || strings.HasPrefix(parentOf(a), "services "+f.namespace+"/")) &&
		(f.parent == "" || strings.HasSuffix(parentOf(a), f.parent))
}

// parentOf is the Service that has an address, or else what its IPAddress names.
func parentOf(a view.Address) string {
	if len(a.Services) > 0 {
		return "services " + strings.Join(a.Services, ",")
	}
	return cmp.Or(a.Parent, "<none>")
}

func (f filter) validate() error {
	return cmp.Or(
		cli.OneOfOrEmpty("--band", f.band, "static", "dynamic"),
		cli.OneOfOrEmpty("--state", f.state, "allocated", "reserved", "cooling"),
	)
}

// NewAddresses returns the command `addresses` with its subcommand `show`.
func NewAddresses(a *cli.Session) *cobra.Command {
	var out cli.Output
	var f filter
	cmd := &cobra.Command{
		Use:     "addresses",
		Aliases: []string{"address", "addr"},
		Short:   "List the addresses in use, with who has them and why",
		Example: `  kubectl clusterip addresses --range=kubernetes --band=static
  kubectl clusterip addresses --state=cooling -o wide
  kubectl clusterip addresses show 10.96.0.10`,
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := cmp.Or(out.Validate(), f.validate()); err != nil {
				return err
			}
			f.namespace = a.Namespace()
			return printAddresses(cmd.Context(), a, f, out)
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&out.Format, "output", "o", "", "output format: wide, json, yaml or name")
	flags.BoolVar(&out.NoHeaders, "no-headers", false, "leave out the head of the table")
	flags.StringVar(&f.serviceCIDR, "range", "", "only addresses of this ServiceCIDR")
	flags.StringVar(&f.band, "band", "", "only addresses of this band: static or dynamic")
	flags.StringVar(&f.state, "state", "", "only addresses in this state: allocated, reserved or cooling")
	flags.StringVar(&f.parent, "parent", "", "only addresses of this parent: NAMESPACE/NAME of a Service, or NAME of a policy")
	flags.StringVar(&f.policy, "policy", "", "only addresses that this ServiceCIDRPolicy keeps")
	cmd.AddCommand(newShow(a))
	return cmd
}

func newShow(a *cli.Session) *cobra.Command {
	return &cobra.Command{
		Use:   "show ADDRESS",
		Short: "Who has an address, since when, what is wrong with it, and its last events",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			address, err := netip.ParseAddr(args[0])
			if err != nil {
				return fmt.Errorf("%q is no address", args[0])
			}
			return show(cmd.Context(), a, address.Unmap())
		},
	}
}

func printAddresses(ctx context.Context, a *cli.Session, f filter, out cli.Output) error {
	v, err := a.View(ctx)
	if err != nil {
		return err
	}
	all, err := v.Addresses(ctx)
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(one view.Address) bool { return !f.matches(one) })
	return out.Print(a.Out, listAddresses(all, time.Now()))
}

func listAddresses(all []view.Address, now time.Time) cli.Listing {
	l := cli.Listing{
		Value: struct {
			Kind  string         `json:"kind"`
			Items []view.Address `json:"items"`
		}{"AddressList", all},
		Table: metav1.Table{ColumnDefinitions: cli.Columns("ADDRESS", "STATE", "PARENT", "RANGE", "BAND", "POLICY", "+PROBLEM", "+AGE")},
	}
	for _, a := range all {
		age := "<unknown>"
		if a.IPAddress != nil {
			age = duration.HumanDuration(now.Sub(a.IPAddress.CreationTimestamp.Time))
		}
		l.Names = append(l.Names, "ipaddress.networking.k8s.io/"+a.Address.String())
		l.Table.Rows = append(l.Table.Rows, metav1.TableRow{Cells: []any{
			a.Address, a.State, parentOf(a), cmp.Or(strings.Join(a.ServiceCIDRs, ","), "<none>"), cmp.Or(a.Band, "<none>"), cmp.Or(a.Policy, "<none>"),
			cmp.Or(strings.Join(problems(a), "; "), "<none>"), age,
		}})
	}
	return l
}

// lastEvents is how many events are shown.
const lastEvents = 5

func show(ctx context.Context, a *cli.Session, address netip.Addr) error {
	s, err := a.Open()
	if err != nil {
		return err
	}
	out, err := whyAddress(ctx, s, address)
	if err != nil {
		return err
	}
	events, err := events(ctx, s, out.Addresses[0])
	if err != nil {
		return err
	}
	w := bufio.NewWriter(a.Out)
	now := time.Now()
	out.Describe(w, now)
	for _, e := range events {
		cli.Write(w, "  %s ago: %s: %s\n", duration.HumanDuration(now.Sub(seen(e))), e.Reason, e.Message)
	}
	return w.Flush()
}

// events returns the last events about an address: of Services that name it, and of its IPAddress.
func events(ctx context.Context, s *cli.Cluster, a view.Address) (all []corev1.Event, err error) {
	about := []client.ObjectKey{{Namespace: metav1.NamespaceDefault, Name: a.Address.String()}} // events of objects without a namespace are there
	for _, name := range a.Services {
		namespace, name, _ := strings.Cut(name, "/")
		about = append(about, client.ObjectKey{Namespace: namespace, Name: name})
	}
	for _, o := range about {
		list := &corev1.EventList{}
		if err := s.List(ctx, list, client.InNamespace(o.Namespace), client.MatchingFields{"involvedObject.name": o.Name}); err != nil {
			return nil, fmt.Errorf("listing events of %s: %w", o.Name, cli.Permission(err))
		}
		all = append(all, list.Items...)
	}
	text := a.Address.String()
	all = slices.DeleteFunc(all, func(e corev1.Event) bool { return e.InvolvedObject.Name != text && !strings.Contains(e.Message, text) })
	slices.SortFunc(all, func(a, b corev1.Event) int { return seen(b).Compare(seen(a)) })
	return all[:min(len(all), lastEvents)], nil
}

// seen is when an event was last seen. Those of events.k8s.io have a time of their own.
func seen(e corev1.Event) time.Time {
	last := e.LastTimestamp.Time
	if e.EventTime.After(last) {
		last = e.EventTime.Time
	}
	if e.Series != nil && e.Series.LastObservedTime.After(last) {
		last = e.Series.LastObservedTime.Time
	}
	return last
}
