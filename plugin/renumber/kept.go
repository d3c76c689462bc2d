package renumber

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/internal/upstream"
	"github.com/clusterip-operator/clusterip-operator/plugin/cli"
	"github.com/clusterip-operator/clusterip-operator/plugin/health"
)

// Second is a Service that keeps the old address of another one.
type Second struct {
	Namespace string     `json:"namespace"`
	Name      string     `json:"name"`
	Address   netip.Addr `json:"address"`
	// First is the Service that had the address.
	First string `json:"first"`
	// Since is when that gave it up, Connections how many to it the agents count; nil without a count.
	Since       time.Time `json:"since"`
	Connections *int      `json:"connections,omitempty"`
	// Unfinished: First has the address too, or is between its two updates, as after a kill.
	Unfinished bool `json:"unfinished,omitempty"`
	held       Held
}

// keeping are the flags of kept.
type keeping struct {
	olderThan                            time.Duration
	remove, inUse, dryRun, deadlineGiven bool
	output                               string
}

func keptCommand(a *cli.Session) *cobra.Command {
	var r keeping
	cmd := &cobra.Command{
		Use:   "kept",
		Short: "Which second Services keep old addresses, since when; and delete them",
		Long: `Lists the second Services that keep old addresses (plans with keep: service), whatever plan moved the first ones: since when, and how many connections the node agents count. Other
proxies count none. Only Services that renumbering has created are listed, by what their IPAddresses say, and none that only has their label.

--delete deletes those that are older than --older-than. One to which the agents count connections stays, unless --in-use is given, and so does one whose connections not every agent
can tell, as while the node of one is down. Where there are no agents the deadline alone decides, and clients that still use an address are cut off. One whose first Service has the address still, as after a run that was killed, stays too: run the plan again.`,
		Example: `  kubectl clusterip renumber kept
  kubectl clusterip renumber kept --delete --older-than=168h --dry-run`,
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			r.deadlineGiven = cmd.Flags().Changed("older-than")
			if err := r.validate(); err != nil {
				return err
			}
			return r.run(a.Logging(cmd.Context()), a)
		},
	}
	f := cmd.Flags()
	a.AddAllNamespaces(cmd, "Services")
	f.BoolVar(&r.remove, "delete", false, "delete them, with their addresses")
	f.DurationVar(&r.olderThan, "older-than", 0, "only those that have kept an address for longer")
	f.BoolVar(&r.inUse, "in-use", false, "with --delete: also those to which agents count connections")
	f.BoolVar(&r.dryRun, "dry-run", false, "with --delete: only say what would be deleted")
	cli.AddOutput(cmd, &r.output)
	return cmd
}

// validate returns an error if the flags fit no cluster.
func (r keeping) validate() error {
	switch {
	case r.olderThan < 0:
		return errors.New("--older-than must not be negative")
	case r.remove && !r.deadlineGiven:
		return errors.New("--delete needs --older-than: for how long clients may have used an old address, such as 168h")
	case !r.remove && (r.inUse || r.dryRun):
		return errors.New("--in-use and --dry-run are for --delete; without that nothing is deleted")
	}
	return cli.ValidOutput(r.output)
}

func (r keeping) run(ctx context.Context, a *cli.Session) error {
	s, err := a.Open()
	if err != nil {
		return err
	}
	all, err := seconds(ctx, s, a.Namespace())
	if err != nil {
		return err
	}
	agents, err := count(ctx, s, all)
	if err != nil {
		a.Say("connections are not counted: %v", err)
	}
	all = slices.DeleteFunc(all, func(k Second) bool { return s.Clock.Since(k.Since) <= r.olderThan && r.olderThan > 0 })
	if !r.remove {
		return a.Put(r.output, all, func(w io.Writer) { tableOfSeconds(w, all) })
	}
	return r.delete(ctx, a, Mover{Client: s, Keep: KeepService, Clock: clock.RealClock{}}, all, agents)
}

// stays returns why a second Service is not deleted, empty if it is. What agents cannot count they
// may have connections to.
func (r keeping) stays(k Second, agents bool) string {
	switch {
	case k.Unfinished:
		return ": " + unfinished(k.held.Item, k.Address)
	case r.inUse:
		return ""
	case k.Connections == nil && agents:
		return fmt.Sprintf(" may be in use: not every agent tells its connections to %s; try again when all do, or give --in-use", k.Address)
	case k.Connections != nil && *k.Connections > 0:
		return fmt.Sprintf(" is in use: %d connections to %s", *k.Connections, k.Address)
	}
	return ""
}

// delete deletes second Services, or says which it would.
func (r keeping) delete(ctx context.Context, a *cli.Session, m Mover, all []Second, agents bool) error {
	left := 0
	for _, k := range all {
		if why := r.stays(k, agents); why != "" {
			left++
			a.Say("%s/%s%s", k.Namespace, k.Name, why)
			continue
		}
		if r.dryRun {
			a.Say("%s/%s would be deleted, with %s", k.Namespace, k.Name, k.Address)
			continue
		}
		if err := m.retire(ctx, k.held); err != nil {
			return err
		}
		a.Say("%s/%s deleted, with %s", k.Namespace, k.Name, k.Address)
	}
	if !r.dryRun {
		if err := m.tidy(ctx); err != nil {
			return err
		}
	}
	if left > 0 {
		return cli.Exit{Code: cli.ExitFindings}
	}
	return nil
}

// seconds are the second Services of a namespace, or of all, by what IPAddresses say.
func seconds(ctx context.Context, s *cli.Cluster, namespace string) (out []Second, err error) {
	ips, services := &networkingv1.IPAddressList{}, &corev1.ServiceList{}
	if err := s.ListNamed(ctx, ips, "IPAddresses", client.MatchingLabels{v1alpha1.LabelPurpose: v1alpha1.PurposeSecond}); err != nil {
		return nil, err
	}
	if len(ips.Items) == 0 {
		return nil, nil
	}
	if err := s.ListNamed(ctx, services, "Services", client.InNamespace(namespace)); err != nil {
		return nil, err
	}
	byName := map[types.NamespacedName]*corev1.Service{}
	for i := range services.Items {
		byName[nameOf(&services.Items[i])] = &services.Items[i]
	}
	for i := range ips.Items {
		if one, is := newKept(&ips.Items[i], byName[upstream.Service(&ips.Items[i])]); is {
			one.Unfinished = handing(one.held.Item, one.Address, byName[one.held.Item.Key()])
			out = append(out, one)
		}
	}
	slices.SortFunc(out, func(a, b Second) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.First, b.First), a.Address.Compare(b.Address))
	})
	return out, nil
}

// newKept reads the second Service of an IPAddress; false if it is none.
func newKept(ip *networkingv1.IPAddress, second *corev1.Service) (out Second, is bool) {
	name, uid, ok := strings.Cut(ip.Annotations[v1alpha1.AnnotationSecondOf], "/")
	a, err := netip.ParseAddr(ip.Name)
	if !ok || err != nil || second == nil {
		return out, false
	}
	i := Item{Namespace: second.Namespace, Name: name, UID: types.UID(uid)}
	since, err := time.Parse(time.RFC3339Nano, ip.Annotations[v1alpha1.AnnotationReleased])
	if err != nil {
		since = second.CreationTimestamp.Time
	}
	return Second{
		Namespace: second.Namespace, Name: second.Name, Address: a, First: name, Since: since,
		held: Held{Item: i, Address: a, Since: since, Second: second.UID},
	}, vouches(i, ip, second) && secondName(i, a) == nameOf(second)
}

// count asks the agents, if there are any, how many connections there are to each address. It is
// true if there are, or if that cannot be told.
func count(ctx context.Context, s *cli.Cluster, all []Second) (agents bool, err error) {
	sets, err := health.AgentSets(ctx, s, metav1.NamespaceSystem)
	if err != nil {
		return true, err
	}
	if len(sets) == 0 || len(all) == 0 {
		return false, nil
	}
	counts, err := health.FormerConnections(ctx, s)
	if err != nil {
		return true, err
	}
	for i := range all {
		if n, known := counts[all[i].Address]; known {
			all[i].Connections = &n
		}
	}
	return true, nil
}

// tableOfSeconds is a list for people.
func tableOfSeconds(w io.Writer, all []Second) {
	for _, k := range all {
		if k.Unfinished {
			cli.Write(w, "%s/%s: %s\n", k.Namespace, k.Name, unfinished(k.held.Item, k.Address))
			continue
		}
		use := "not counted"
		if k.Connections != nil {
			use = fmt.Sprintf("%d connections", *k.Connections)
		}
		cli.Write(w, "%s/%s keeps %s of %s since %s, %s\n", k.Namespace, k.Name, k.Address, k.First, k.Since.UTC().Format(time.RFC3339), use)
	}
	cli.Write(w, "%d second Services\n", len(all))
}
