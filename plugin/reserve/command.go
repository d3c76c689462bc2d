package reserve

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/clusterip-operator/clusterip-operator/internal/wording"
	"github.com/clusterip-operator/clusterip-operator/plugin/cli"
)

// flags are those of the command.
type flags struct {
	services, prune, apply, dryRun, formatSet bool
	namespace, selector, name, output         string
	ranges                                    []string
}

// New returns the command `reserve`.
func New(a *cli.Session) *cobra.Command {
	var f flags
	cmd := &cobra.Command{
		Use:   "reserve --from-services",
		Short: "Keep the addresses of Services for them, so that they come back with theirs",
		Long: `Prints ServiceCIDRPolicies that reserve each ClusterIP of the Services that exist for its Service, in both families; --apply writes them. A Service that is deleted and created anew, as by
a restore, then has its addresses again, whether it asks for them or not, and no other Service gets them meanwhile. Headless Services, those of type ExternalName and default/kubernetes are
left out, and so is what another policy reserves.

Policies have 1,024 reservations each: NAME, NAME-2 and so on. Run it again when Services come: what is reserved already stays where it is. Reservations of Services that are gone stay,
for they are to come back; --prune takes them out.`,
		Example: `  kubectl clusterip reserve --from-services >reservations.yaml
  kubectl clusterip reserve --from-services -n shop -l tier=web --name=shop
  kubectl clusterip reserve --from-services --apply`,
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			f.formatSet = cmd.Flags().Changed("output")
			f.namespace = a.Namespace()
			if err := f.validate(); err != nil {
				return err
			}
			return run(cmd.Context(), a, f)
		},
	}
	set := cmd.Flags()
	set.BoolVar(&f.services, "from-services", false, "reserve what Services have now")
	a.AddAllNamespaces(cmd, "Services")
	set.StringVarP(&f.selector, "selector", "l", "", "only Services with these labels")
	set.StringSliceVar(&f.ranges, "range", nil, "only addresses in these: names of ServiceCIDRs, or CIDRs")
	set.StringVar(&f.name, "name", "services", "name of the first policy; the others have a number behind it")
	set.BoolVar(&f.prune, "prune", false, "take out reservations of Services that are gone")
	set.BoolVar(&f.apply, "apply", false, "write the policies, and print no more than what became of each")
	set.BoolVar(&f.dryRun, "dry-run", false, "with --apply: have the API server try each write without storing it")
	_ = cmd.RegisterFlagCompletionFunc("range", a.Complete(cli.KindRange, 0)) // fails for a flag that there is not
	cli.AddDocumentOutput(cmd, &f.output)
	return cmd
}

// validate returns an error if the flags fit no cluster.
func (f *flags) validate() error {
	switch {
	case !f.services:
		return errors.New("say what is to be reserved: --from-services, for the addresses that Services have now")
	case f.dryRun && !f.apply:
		return errors.New("--dry-run is for --apply; without that nothing is written")
	case f.apply && f.formatSet:
		return errors.New("--apply writes the policies into the cluster and --output prints them; leave one of both out")
	}
	if cli.AsTable(f.output) {
		f.output = "yaml"
	}
	if err := cli.ValidPlanOutput(f.output); err != nil {
		return err
	}
	for _, text := range f.ranges {
		if err := cli.ValidRange("--range", text); err != nil {
			return err
		}
	}
	if _, err := labels.Parse(f.selector); err != nil {
		return fmt.Errorf("--selector: %w", err)
	}
	if problems := validation.IsDNS1123Label(f.name); len(problems) > 0 { // the value of a label, too
		return fmt.Errorf("--name: no policy can be called %.100q here: %s", f.name, problems[0])
	}
	return nil
}

func run(ctx context.Context, a *cli.Session, f flags) error {
	s, err := a.Open()
	if err != nil {
		return err
	}
	ctx = a.Logging(ctx)
	if f.apply && !s.Policies {
		return errors.New("the API server does not serve ServiceCIDRPolicies: apply config/crd first")
	}
	in, err := gather(ctx, s, f)
	if err != nil {
		return err
	}
	p, err := newPlan(in)
	if err != nil {
		return err
	}
	if len(p.policies) == 0 {
		cli.Write(a.ErrOut, "No resources found\n")
		return nil
	}
	tell(a, p)
	if f.apply {
		return apply(ctx, a, s, in.policies, p.policies, f.dryRun)
	}
	return put(a, f.output, p.policies)
}

// tell says what the policies keep and what they do not, beside the output.
func tell(a *cli.Session, p plan) {
	const shown = 3
	cli.Write(a.ErrOut, "%d addresses of %d Services are reserved for them, in policies: %d\n", p.addresses, p.services, len(p.policies))
	if len(p.gone) > 0 {
		cli.Write(a.ErrOut, "%d Services are gone, and their reservations stay until --prune takes them out: %s\n", len(p.gone), wording.First(p.gone, shown))
	}
	if len(p.pruned) > 0 {
		cli.Write(a.ErrOut, "%d Services are gone, and their reservations are taken out: %s\n", len(p.pruned), wording.First(p.pruned, shown))
	}
	if len(p.moved) > 0 {
		cli.Write(a.ErrOut, "%d addresses are not reserved for their Service of before any more: %s\n", len(p.moved), wording.First(p.moved, shown))
	}
	if len(p.elsewhere) > 0 {
		cli.Write(a.ErrOut, "%d addresses are left out, for another reservation keeps them: %s\n", len(p.elsewhere), wording.First(p.elsewhere, shown))
	}
}
