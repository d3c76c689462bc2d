package renumber

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/internal/batch"
	"github.com/clusterip-operator/clusterip-operator/internal/upstream"
	"github.com/clusterip-operator/clusterip-operator/plugin/cli"
	"github.com/clusterip-operator/clusterip-operator/plugin/health"
)

// moving are the flags of run and rollback.
type moving struct {
	from                       string
	dryRun, accept, wait, back bool
	loadBalancers              bool
	drain                      Drain
	pace                       batch.Pace
}

func runCommand(a *cli.Session) *cobra.Command {
	r := moving{}
	cmd := &cobra.Command{
		Use:   "run --from FILE",
		Short: "Move the Services of a plan",
		Long: `Moves the Services of a plan, then waits until their old addresses are unused and gives them up. It can be interrupted, even killed, and run again: it goes on where it was. A Service that
its owner has changed since the plan was made is left as it is, and named. With an interrupt those under way are finished, and none is begun.

An old address is given up when no agent has counted a connection to it for --quiet, and it has been kept for --dns-ttl; at the latest after --drain. Until then ` + "`rollback`" + ` brings the
Service back to it.`,
		Example: `  kubectl clusterip renumber run --from plan.yaml --dry-run
  kubectl clusterip renumber run --from plan.yaml --workers=4 --drain=1h`,
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return move(a.Logging(cmd.Context()), a, r) },
	}
	r.addFlags(cmd)
	cmd.Flags().BoolVar(&r.loadBalancers, "include-load-balancers", false, "also move Services of type LoadBalancer that the plan has")
	return cmd
}

func rollbackCommand(a *cli.Session) *cobra.Command {
	r := moving{back: true}
	cmd := &cobra.Command{
		Use:   "rollback --from FILE",
		Short: "Move the Services of a plan back to their old addresses",
		Long: `Moves those Services of a plan back that have their new addresses, or are on the way to them. Old addresses that are still kept are certain; one that was given up is had again if no other
Service has taken it. The new addresses are kept until no client uses them, as the old ones were. Where API servers do not allocate from the old range any more, nothing is moved.`,
		Example: `  kubectl clusterip renumber rollback --from plan.yaml`,
		Args:    cli.NoArguments,
		RunE:    func(cmd *cobra.Command, _ []string) error { return move(a.Logging(cmd.Context()), a, r) },
	}
	r.addFlags(cmd)
	return cmd
}

func (r *moving) addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&r.from, "from", "", "file of the plan")
	f.BoolVar(&r.dryRun, "dry-run", false, "only say what would be done")
	f.BoolVar(&r.accept, "accept-interruption", false, "go on although no proxy serves the old addresses (plans with keep: none)")
	f.BoolVar(&r.wait, "wait", true, "wait until the old addresses are unused, and give them up; without it run the command again later")
	f.DurationVar(&r.drain.TTL, "dns-ttl", 30*time.Second, "for how long resolvers may go on answering with the old address")
	f.DurationVar(&r.drain.Quiet, "quiet", 30*time.Second, "for how long no client must have had a connection to an old address")
	f.DurationVar(&r.drain.Limit, "drain", 10*time.Minute, "how long old addresses are kept at most")
	f.Float64Var((*float64)(&r.pace.Limit), "qps", 20, "Services per second; 0 for as many as the API server takes")
	f.IntVar(&r.pace.Workers, "workers", 4, "Services at a time")
}

func move(ctx context.Context, a *cli.Session, r moving) error {
	if !cli.ValidPace(r.pace) {
		return cli.ErrPace
	}
	if min(r.drain.TTL, r.drain.Quiet, r.drain.Limit) < 0 {
		return errors.New("--dns-ttl, --quiet and --drain must not be negative")
	}
	s, p, err := openPlan(ctx, a, r.from)
	if err != nil {
		return err
	}
	if p.Keep == KeepNone && !r.accept {
		return errors.New("no proxy serves the old addresses (keep: none), so that connections to them break: install the node agent, plan with --keep=service or --keep=externalIPs, or say --accept-interruption")
	}
	if p.Keep == KeepNone {
		r.drain.Limit = min(r.drain.Limit, r.drain.TTL) // there is no client to wait for; only, no other Service shall have the address while resolvers answer with it
	}
	now := &offering{clock: clock.RealClock{}, list: serviceCIDRs(s)}
	m, err := newMover(ctx, s, p, r, now)
	if err != nil {
		return err
	}
	if err := r.count(ctx, a, s, p.Keep); err != nil {
		return err
	}
	items := p.Services
	if r.back {
		for i := range items {
			items[i] = items[i].Back()
		}
	}
	if err := upToDate(ctx, s, items, now); err != nil {
		return err
	}
	if r.dryRun {
		if p.Keep == KeepService {
			saySeconds(a, items)
		}
		return showStandings(ctx, a, s, items, "")
	}
	return moveAll(ctx, a, m, r, items)
}

// count has agents say whether old addresses are in use, where they can.
func (r *moving) count(ctx context.Context, a *cli.Session, s *cli.Cluster, keep Keep) error {
	connections := func(ctx context.Context) (map[netip.Addr]int, error) { return health.FormerConnections(ctx, s) }
	switch keep {
	case KeepAgent:
		if _, err := connections(ctx); err != nil {
			return fmt.Errorf("%w; nothing was moved: the plan has the agents serve old addresses (keep: agent)", err)
		}
		r.drain.Connections = connections
	case KeepService:
		agents, err := health.AgentSets(ctx, s, metav1.NamespaceSystem)
		if err != nil {
			return err
		}
		if len(agents) > 0 {
			r.drain.Connections = connections
		} else if r.wait && !r.dryRun {
			a.Say("no agent counts connections: second Services are deleted after --drain (%v), used or not", r.drain.Limit)
		}
	}
	return nil
}

// saySeconds says which Services would be created.
func saySeconds(a *cli.Session, items []Item) {
	for _, i := range items {
		for _, old := range i.leaves() {
			a.Say("Service %s would keep %s of %s", secondName(i, old), old, i.Key())
		}
	}
}

// serviceCIDRs lists ServiceCIDRs.
func serviceCIDRs(s *cli.Cluster) func(context.Context) ([]networkingv1.ServiceCIDR, error) {
	return func(ctx context.Context) ([]networkingv1.ServiceCIDR, error) {
		list := &networkingv1.ServiceCIDRList{}
		err := s.ListNamed(ctx, list, "ServiceCIDRs")
		return list.Items, err
	}
}

// newMover moves Services as a plan says.
func newMover(ctx context.Context, s *cli.Cluster, p planFile, r moving, now *offering) (Mover, error) {
	m := Mover{Client: s, Keep: p.Keep, Clock: clock.RealClock{}}
	v, err := s.View(ctx)
	if err != nil {
		return m, err
	}
	if v.Bitmap() {
		return m, errBitmap
	}
	rules, err := rulesFor(ctx, s, nil, r.loadBalancers || p.LoadBalancers)
	if err != nil {
		return m, err
	}
	if !r.back && len(p.Problems) > 0 {
		return m, fmt.Errorf("the plan has a problem: %s; make another one", p.Problems[0])
	}
	m.Awaited = rules.Awaited
	if !r.back {
		m.Rules = &rules
	}
	m.Refusal = func(ctx context.Context, service *corev1.Service, want []netip.Addr, kept bool) (string, error) {
		cidrs, err := now.now(ctx)
		if err != nil {
			return "", err
		}
		if why := notOffered(want, cidrs); why != "" {
			return why, nil
		}
		if r.back || kept { // the addresses are taken: they are kept for the Service
			return cordoned(want, v.CordonedBy), nil
		}
		return refusedAddresses(ctx, v, service, want)
	}
	return m, nil
}

// upToDate fails before anything is written if a Service would lose its addresses and be refused
// those that it is to get.
func upToDate(ctx context.Context, s *cli.Cluster, items []Item, now *offering) error {
	services, err := servicesByName(ctx, s)
	if err != nil {
		return err
	}
	cidrs, err := now.now(ctx)
	if err != nil {
		return err
	}
	if why := outOfDate(items, services, cidrs); why != "" {
		return fmt.Errorf("the plan is out of date, and nothing was moved: %s", why)
	}
	return nil
}

// keptStill is how many addresses are kept after a wait: second Services of Services that were left
// are not among those that were waited for.
func (m Mover) keptStill(ctx context.Context, items []Item, held int) (int, error) {
	if m.Keep != KeepService {
		return held, nil
	}
	ips, of := &networkingv1.IPAddressList{}, sets.New[string]()
	err := batch.Retry(ctx, func() error {
		return m.Client.List(ctx, ips, client.MatchingLabels{v1alpha1.LabelPurpose: v1alpha1.PurposeSecond})
	})
	if err != nil {
		return held, fmt.Errorf("listing the IPAddresses of second Services: %w", err)
	}
	for _, i := range items {
		of.Insert(i.Namespace + "/" + firstOf(i))
	}
	held = 0
	for n := range ips.Items {
		if of.Has(upstream.Service(&ips.Items[n]).Namespace + "/" + ips.Items[n].Annotations[v1alpha1.AnnotationSecondOf]) {
			held++
		}
	}
	return held, nil
}

// givenUp says how a wait has ended.
func givenUp(n, held int) string {
	if held == 0 {
		return fmt.Sprintf("%d addresses were given up, none is kept any more", n)
	}
	return fmt.Sprintf("%d addresses were given up, %d are still kept: run it again when what is said of the Services that were left is mended", n, held)
}

func moveAll(ctx context.Context, a *cli.Session, m Mover, r moving, items []Item) error {
	r.pace.Progress = a.Progress()
	result, err := m.MoveAll(ctx, r.pace, items)
	if m.Keep == KeepService {
		err = errors.Join(err, m.tidy(finishing(ctx)))
	}
	for _, l := range result.Left {
		a.Say("left as it is: %s/%s: %s", l.Namespace, l.Name, l.Why)
	}
	if err != nil {
		return cli.Exit{Code: cli.ExitFindings, Err: fmt.Errorf("%d of %d Services have their addresses, then: %w; run it again when the cause is mended", result.Moved, len(items), err)}
	}
	a.Say("%d of %d Services have the addresses of the plan, %d were left as they are", result.Moved, len(items), len(result.Left))
	held := len(result.Held)
	if r.wait {
		n, err := r.drain.Wait(ctx, m, r.pace, result.Held)
		if held -= n; err == nil {
			held, err = m.keptStill(ctx, items, held)
		}
		if err != nil {
			return cli.Exit{Code: cli.ExitFindings, Err: fmt.Errorf("%d addresses are still kept: %w; run it again", held, err)}
		}
		a.Say("%s", givenUp(n, held))
	} else if held > 0 {
		a.Say("%d addresses are still kept; run it again without --wait=false to have them given up when they are unused", held)
	}
	if len(result.Left) > 0 || held > 0 {
		return cli.Exit{Code: cli.ExitFindings}
	}
	return nil
}
