package renumber

import (
	"context"
	"io"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterip-operator/clusterip-operator/plugin/cli"
)

func statusCommand(a *cli.Session) *cobra.Command {
	var from, output string
	cmd := &cobra.Command{
		Use:   "status --from FILE",
		Short: "How far the Services of a plan are",
		Long: `Says of each Service of a plan how far it is: Waiting (has its old addresses), Between (is of type ExternalName for a moment), Moved (has its new ones, and the old ones are kept), Done, or
Left (its owner has changed it). All of it is read from the cluster.`,
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := cli.ValidOutput(output); err != nil {
				return err
			}
			s, p, err := openPlan(cmd.Context(), a, from)
			if err != nil {
				return err
			}
			return showStandings(cmd.Context(), a, s, p.Services, output)
		},
	}
	cmd.Flags().StringVar(&from, "from", "", "file of the plan")
	cli.AddOutput(cmd, &output)
	return cmd
}

// showStandings prints how far Services are.
func showStandings(ctx context.Context, a *cli.Session, s *cli.Cluster, items []Item, output string) error {
	byName, err := servicesByName(ctx, s)
	if err != nil {
		return err
	}
	kept, err := seconds(ctx, s, "")
	if err != nil {
		return err
	}
	keptFor := map[types.UID][]string{}
	for _, k := range kept {
		keptFor[k.held.Item.UID] = append(keptFor[k.held.Item.UID], k.Name)
	}
	all, counts := []Standing{}, map[Stage]int{}
	for _, i := range items {
		now := StandingOf(i, byName[i.Key()])
		if now.Seconds = keptFor[i.UID]; now.Stage == Done && len(now.Seconds) > 0 {
			now.Stage = Moved
		}
		all, counts[now.Stage] = append(all, now), counts[now.Stage]+1
	}
	err = a.Put(output, all, func(w io.Writer) {
		for _, n := range all {
			cli.Write(w, "%-8s %s/%s: %s -> %s %s\n", n.Stage, n.Namespace, n.Name, join(n.Old), join(n.New), n.Why)
		}
		for _, stage := range []Stage{Waiting, Between, Moved, Done, Left} {
			cli.Write(w, "%d %s\n", counts[stage], stage)
		}
	})
	if err == nil && counts[Done] < len(all) {
		return cli.Exit{Code: cli.ExitFindings}
	}
	return err
}

func servicesByName(ctx context.Context, s *cli.Cluster) (map[types.NamespacedName]*corev1.Service, error) {
	services := &corev1.ServiceList{}
	if err := s.ListNamed(ctx, services, "Services"); err != nil {
		return nil, err
	}
	out := map[types.NamespacedName]*corev1.Service{}
	for i := range services.Items {
		out[client.ObjectKeyFromObject(&services.Items[i])] = &services.Items[i]
	}
	return out, nil
}
