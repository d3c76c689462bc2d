package inspect

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/clusterip-operator/clusterip-operator/plugin/cli"
	"github.com/clusterip-operator/clusterip-operator/plugin/view"
)

// NewAddresses returns the command `addresses` with its subcommands.
func NewAddresses(a *cli.Session) *cobra.Command {
	var out cli.Output
	var f filter
	cmd := &cobra.Command{
		Use:     "addresses",
		Aliases: []string{"address", "addr"},
		Short:   "List the addresses in use, with who has them and why",
		Example: `  kubectl clusterip addresses --range=kubernetes --band=static
  kubectl clusterip addresses --state=cooling -o wide
  kubectl clusterip addresses --parent=policy/team
  kubectl clusterip addresses show 10.96.0.10
  kubectl clusterip addresses history 10.96.0.10`,
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			f.namespace = a.Namespace()
			if err := cmp.Or(out.Validate(), f.validate()); err != nil {
				return err
			}
			return printAddresses(cmd.Context(), a, f, out)
		},
	}
	flags := cmd.Flags()
	out.AddFlags(cmd)
	a.AddAllNamespaces(cmd, "addresses")
	flags.StringVar(&f.serviceCIDR, "range", "", "only addresses of this ServiceCIDR")
	flags.StringVar(&f.band, "band", "", "only addresses of this band: static or dynamic")
	flags.StringVar(&f.state, "state", "", "only addresses in this state: allocated, reserved or cooling")
	flags.StringVar(&f.parent, "parent", "", "only addresses of this parent: NAMESPACE/NAME of a Service, NAME of a policy, or TYPE/NAME")
	flags.StringVar(&f.policy, "policy", "", "only addresses that this ServiceCIDRPolicy keeps")
	_ = cmd.RegisterFlagCompletionFunc("range", a.Complete(cli.KindRange, 0)) // both fail for flags that there are not
	_ = cmd.RegisterFlagCompletionFunc("policy", a.Complete(cli.KindPolicy, 0))
	cmd.AddCommand(newShow(a), newHistory(a))
	return cmd
}

func newShow(a *cli.Session) *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:   "show ADDRESS",
		Short: "Who has an address, since when, what is wrong with it, and its last events",
		Args:  cli.OneArgument("ADDRESS", 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := cli.ValidOutput(format); err != nil {
				return err
			}
			address, err := parseAddress(args[0])
			if err != nil {
				return fmt.Errorf("%.300q is no address; write one as 10.96.0.10 or fd00::10", args[0])
			}
			return show(cmd.Context(), a, address, format)
		},
	}
	cli.AddOutput(cmd, &format)
	return cmd
}

// parseAddress reads an address, be it written as -o name prints it. A zone is of no Service.
func parseAddress(text string) (netip.Addr, error) {
	if word, rest, ok := strings.Cut(text, "/"); ok && cli.KindOf(word) == cli.KindAddress {
		text = rest
	}
	a, err := netip.ParseAddr(text)
	if err == nil && a.Zone() != "" {
		err = fmt.Errorf("%s has a zone", text)
	}
	return a.Unmap(), err
}

func printAddresses(ctx context.Context, a *cli.Session, f filter, out cli.Output) error {
	s, own, err := openFor(ctx, a, f.namespace)
	switch {
	case err != nil:
		return err
	case own:
		return printOwnAddresses(ctx, a, s, f, out)
	}
	v, err := s.View(ctx)
	if err != nil {
		return err
	}
	if err := f.known(ctx, s); err != nil {
		return err
	}
	now := time.Now()
	list, err := newAddressList(a, out)
	if err != nil {
		return err
	}
	err = v.EachAddress(ctx, func(one view.Address) error {
		if !f.matches(one) {
			return nil
		}
		return addAddress(list, one, now, "<none>")
	})
	if err != nil {
		return err
	}
	return list.End()
}

func newAddressList(a *cli.Session, out cli.Output) (*cli.Long[view.Address], error) {
	return cli.NewLong[view.Address](a.Streams, out, "AddressList", cli.Columns("ADDRESS", "STATE", "PARENT", "RANGE", "BAND", "POLICY", "+PROBLEM", "+AGE"))
}

// addAddress adds an address to a list; nothing stands for what is not there, or not known.
func addAddress(list *cli.Long[view.Address], a view.Address, now time.Time, nothing string) error {
	age := "<unknown>"
	if a.IPAddress != nil {
		age = duration.HumanDuration(now.Sub(a.IPAddress.CreationTimestamp.Time))
	}
	return list.Add(a, "ipaddress.networking.k8s.io/"+a.Address.String(), []any{
		a.Address, a.State, parentOf(a), cmp.Or(strings.Join(a.ServiceCIDRs, ","), nothing), cmp.Or(a.Band, nothing), cmp.Or(a.Policy, nothing),
		cmp.Or(strings.Join(problems(a), "; "), nothing), age,
	})
}
