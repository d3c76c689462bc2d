package renumber

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/internal/batch"
	"github.com/clusterip-operator/clusterip-operator/plugin/cli"
	"github.com/clusterip-operator/clusterip-operator/plugin/view"
)

// New returns the command `renumber` with its subcommands.
func New(a *cli.Session) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "renumber",
		Short: "Move Services to other ClusterIPs without losing a connection",
		Long: `Moves Services from one range to another. ClusterIPs are immutable, but not through type ExternalName: two updates, milliseconds apart, exchange the addresses; UID, selector, ports,
node ports and labels stay. The old address goes on being served until no client uses it, by the node agent, as an external IP of the Service or by a second Service, and no other Service can
be given it meanwhile.

  plan  ──>  run  ──>  status, kept
              <──  rollback

Exit status of every command: 0 done, 1 something is left to be done or was left out, 2 it could not be told or nothing was done.`,
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(planCommand(a), runCommand(a), statusCommand(a), rollbackCommand(a), keptCommand(a))
	return cmd
}

// planning are the flags of plan.
type planning struct {
	from, to, include []string
	loadBalancers     bool
	keep, selector    string
	namespace, output string
}

func planCommand(a *cli.Session) *cobra.Command {
	var r planning
	cmd := &cobra.Command{
		Use:   "plan --range OLD --to NEW",
		Short: "Say which Services would be moved, and to which addresses; changes nothing",
		Long: `Chooses a new address for every Service that has one in the old range: the one at the same place of the new range where that is free, otherwise the next free one. What is not moved is
listed with the reason: Services whose address something names (a manifest, the URL of a webhook, kubelets their DNS) and default/kubernetes, which have to be asked for by name, and
load balancers. So are places beside Services that know the old range and not the new one: Calico's BGPConfigurations, flags of kube-router and others, NO_PROXY, Linkerd, Submariner,
kubeadm. A plan in a file is what ` + "`run --from`" + ` carries out, and nothing else; lines may be taken out.`,
		Example: `  kubectl clusterip renumber plan --range=kubernetes --to=new-range
  kubectl clusterip renumber plan --range=10.96.0.0/24 --to=10.200.0.0/22 -n shop -o plan.yaml`,
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			r.namespace = a.Namespace()
			if err := r.validate(); err != nil {
				return err
			}
			return makePlan(a.Logging(cmd.Context()), a, r)
		},
	}
	f := cmd.Flags()
	f.StringSliceVar(&r.from, "range", nil, "the old range: a ServiceCIDR, or CIDRs")
	f.StringSliceVar(&r.to, "to", nil, "the new one: a ServiceCIDR, or CIDRs of ServiceCIDRs")
	a.AddAllNamespaces(cmd, "Services")
	f.StringVarP(&r.selector, "selector", "l", "", "only Services with these labels")
	f.StringSliceVar(&r.include, "include", nil, "NAMESPACE/NAME of Services that are moved although something names their address, default/kubernetes among them")
	f.BoolVar(&r.loadBalancers, "include-load-balancers", false, "also move Services of type LoadBalancer; a cloud controller may see the moment in which they are none")
	f.StringVar(&r.keep, "keep", "", "who serves old addresses while they are in use: agent, externalIPs, service (a second Service for each, which any proxy serves) or none; without it agent, where agents run on the nodes, and otherwise externalIPs")
	for _, flag := range []string{"range", "to"} {
		_ = cmd.RegisterFlagCompletionFunc(flag, a.Complete(cli.KindRange, 0)) // fails for a flag that there is not
	}
	cli.AddPlanOutput(cmd, &r.output)
	return cmd
}

// validate returns an error if no cluster could make a plan of the flags.
func (r planning) validate() error {
	if err := cli.ValidPlanOutput(r.output); err != nil {
		return err
	}
	if len(r.from) == 0 {
		return errors.New("say which range Services leave: --range=NAME of a ServiceCIDR, or a CIDR")
	}
	if len(r.to) == 0 {
		return errors.New("say where Services go: --to=NAME of a ServiceCIDR, or a CIDR of one")
	}
	for flag, all := range map[string][]string{"--range": r.from, "--to": r.to} {
		for _, text := range all {
			if err := cli.ValidRange(flag, text); err != nil {
				return err
			}
		}
	}
	if _, err := labels.Parse(r.selector); err != nil {
		return fmt.Errorf("--selector: %w", err)
	}
	if _, err := named(r.include); err != nil {
		return err
	}
	if r.keep != "" && !slices.Contains(keeps, Keep(r.keep)) {
		return fmt.Errorf("--keep %.300q is none of %s", r.keep, keepWords)
	}
	return nil
}

// named reads the Services that --include names.
func named(include []string) (sets.Set[types.NamespacedName], error) {
	all := sets.New[types.NamespacedName]()
	for _, text := range include {
		namespace, name, ok := strings.Cut(text, "/")
		if !ok || namespace == "" || name == "" {
			return nil, fmt.Errorf("--include: %.300q names no Service; write NAMESPACE/NAME", text)
		}
		all.Insert(types.NamespacedName{Namespace: namespace, Name: name})
	}
	return all, nil
}

func makePlan(ctx context.Context, a *cli.Session, r planning) error {
	s, err := a.Open()
	if err != nil {
		return err
	}
	in, err := gather(ctx, s, r)
	if err != nil {
		return err
	}
	cluster, err := s.UID(ctx)
	if err != nil {
		return err
	}
	p := planFile{Head: batch.Head{APIVersion: v1alpha1.GroupVersion.String(), Kind: KindPlan, Cluster: cluster}, Plan: NewPlan(in)}
	if err := leaveOutRefused(ctx, s, &p.Plan, in.Services); err != nil {
		return err
	}
	lookElsewhere(ctx, s, &p.Plan)
	if err := a.Put(r.output, p, func(w io.Writer) { table(w, p.Plan) }); err != nil {
		return err
	}
	if cli.PlanFile(r.output) {
		a.Say("%d Services would be moved, %d are left out; read %s, then: kubectl clusterip renumber run --from %s", len(p.Services), len(p.LeftOut), r.output, r.output)
		if len(p.Elsewhere) > 0 {
			a.Say("%d places beside Services know the old ranges and not the new ones: change what stands under knownElsewhere before", len(p.Elsewhere))
		}
	}
	if len(p.Problems) > 0 {
		return cli.Exit{Code: cli.ExitFindings, Err: errors.New(strings.Join(p.Problems, "; "))}
	}
	if len(p.LeftOut) > 0 {
		return cli.Exit{Code: cli.ExitFindings}
	}
	return nil
}

// leaveOutRefused leaves out Services whose new addresses the webhook's own function would refuse.
func leaveOutRefused(ctx context.Context, s *cli.Cluster, p *Plan, services []corev1.Service) error {
	v, err := s.View(ctx)
	if err != nil {
		return err
	}
	byName := map[types.NamespacedName]*corev1.Service{}
	for i := range services {
		byName[client.ObjectKeyFromObject(&services[i])] = &services[i]
	}
	kept := []Item{}
	for _, i := range p.Services {
		why, err := refusedAddresses(ctx, v, byName[i.Key()], i.New)
		switch {
		case err != nil:
			return err
		case why != "":
			p.LeftOut = append(p.LeftOut, LeftOut{Namespace: i.Namespace, Name: i.Name, Addresses: i.Old, Why: why})
		default:
			kept = append(kept, i)
		}
	}
	p.Services = kept
	return nil
}

// refusedAddresses is the webhook's refusal of a Service with these addresses, empty if it passes.
func refusedAddresses(ctx context.Context, v *view.View, service *corev1.Service, want []netip.Addr) (string, error) {
	anew := service.DeepCopy()
	// The annotation does not change, so that no right to it is asked for.
	delete(anew.Annotations, v1alpha1.AnnotationAdditionalFrom)
	anew.Spec.ClusterIPs = nil
	for _, a := range want {
		anew.Spec.ClusterIPs = append(anew.Spec.ClusterIPs, a.String())
	}
	anew.Spec.ClusterIP = anew.Spec.ClusterIPs[0]
	e, err := v.Explain(ctx, anew)
	if err != nil {
		return "", fmt.Errorf("asking about Service %s/%s: %w", service.Namespace, service.Name, err)
	}
	return e.Refused, nil
}

// table is a plan for people.
func table(w io.Writer, p Plan) {
	cli.Write(w, "from %s to %s, old addresses kept by: %s\n", join(p.From), join(p.To), p.Keep)
	for _, problem := range p.Problems {
		cli.Write(w, "problem: %s\n", problem)
	}
	cli.Write(w, "%d Services would be moved\n", len(p.Services))
	for _, i := range p.Services {
		cli.Write(w, "  %s/%s (%s): %s -> %s\n", i.Namespace, i.Name, i.Type, join(i.Old), join(i.New))
	}
	cli.Write(w, "%d Services are left out\n", len(p.LeftOut))
	for _, l := range p.LeftOut {
		cli.Write(w, "  %s/%s (%s): %s\n", l.Namespace, l.Name, join(l.Addresses), l.Why)
	}
	if len(p.Elsewhere) > 0 {
		cli.Write(w, "%d places beside Services know the old ranges and not the new ones\n", len(p.Elsewhere))
	}
	for _, e := range p.Elsewhere {
		cli.Write(w, "  %s: %s\n", strings.Join(slices.DeleteFunc([]string{e.Where, e.What}, func(text string) bool { return text == "" }), " "), e.Change)
	}
	for _, what := range p.NotLookedAt {
		cli.Write(w, "not looked at: %s\n", what)
	}
}

func join[T fmt.Stringer](all []T) string {
	var texts []string
	for _, v := range all {
		texts = append(texts, v.String())
	}
	return strings.Join(texts, ",")
}
