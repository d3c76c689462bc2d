package inspect

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterip-operator/clusterip-operator/internal/addressindex"
	"github.com/clusterip-operator/clusterip-operator/internal/history"
	"github.com/clusterip-operator/clusterip-operator/internal/objects"
	"github.com/clusterip-operator/clusterip-operator/internal/upstream"
	"github.com/clusterip-operator/clusterip-operator/plugin/check"
	"github.com/clusterip-operator/clusterip-operator/plugin/cli"
)

func newHistory(a *cli.Session) *cobra.Command {
	var out cli.Output
	var namespace string
	cmd := &cobra.Command{
		Use:   "history ADDRESS",
		Short: "Which Services had an address, and when, the latest first",
		Long: `Says which Services had an address, and when, the latest first.

Who has it now is always told. Who had it before is told if the operator keeps a history, with the component
config/components/history; it takes the right to get ConfigMaps in the operator's namespace.`,
		Example: `  kubectl clusterip addresses history 10.96.0.7
  kubectl clusterip addresses history fd00:10:96::7 -o wide`,
		Args: cli.OneArgument("ADDRESS", 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := out.Validate(); err != nil {
				return err
			}
			address, err := parseAddress(args[0])
			if err != nil {
				return fmt.Errorf("%.300q is no address; write one as 10.96.0.10 or fd00::10", args[0])
			}
			return printHistory(cmd.Context(), a, address, namespace, out)
		},
	}
	out.AddFlags(cmd)
	check.NamespaceFlag(cmd, &namespace)
	return cmd
}

func printHistory(ctx context.Context, a *cli.Session, address netip.Addr, namespace string, out cli.Output) error {
	s, err := a.Open()
	if err != nil {
		return err
	}
	p, err := gatherPast(ctx, s, address, namespace)
	if err != nil {
		return err
	}
	told := p.decide()
	for _, note := range told.Notes {
		cli.Write(a.ErrOut, "%s\n", note)
	}
	if len(told.Items) == 0 && (cli.AsTable(out.Format) || out.Format == "wide") {
		return nil // a note has said so
	}
	return out.List(a.Streams, listOwners(told))
}

// past is what there is to tell of an address.
type past struct {
	address netip.Addr
	// namespace is that of the operator.
	namespace string
	// page has what is written of the address; kept says that any history is. refused: the user may
	// not read it.
	page          history.Page
	kept, refused bool
	// offered: a ServiceCIDR has the address.
	offered bool
	// ip is the IPAddress, nil without one. parent is the Service that it names, if that is there.
	ip     *networkingv1.IPAddress
	parent *corev1.Service
	// held are the Services of open records that have the address, as the API server has them.
	held map[types.NamespacedName]types.UID
}

func gatherPast(ctx context.Context, s *cli.Cluster, address netip.Addr, namespace string) (p past, err error) {
	p = past{address: address, namespace: namespace, held: map[types.NamespacedName]types.UID{}}
	ranges, _, err := s.RangesAndPolicies(ctx)
	if err != nil {
		return p, err
	}
	p.offered = slices.ContainsFunc(ranges.Items, func(c networkingv1.ServiceCIDR) bool { return offers(c, address) })
	if p.ip, err = objects.Get(ctx, s, types.NamespacedName{Name: address.String()}, &networkingv1.IPAddress{}); err != nil {
		return p, cli.Permission(err)
	}
	if p.ip != nil && upstream.Service(p.ip).Name != "" {
		if p.parent, err = objects.Get(ctx, s, upstream.Service(p.ip), &corev1.Service{}); err != nil {
			return p, cli.Permission(err)
		}
	}
	if err := p.readPage(ctx, s); err != nil {
		return p, err
	}
	for _, r := range p.page.Of(address) {
		if r.Open() {
			if err := p.look(ctx, s, r); err != nil {
				return p, err
			}
		}
	}
	return p, nil
}

func offers(c networkingv1.ServiceCIDR, address netip.Addr) bool {
	return slices.ContainsFunc(c.Spec.CIDRs, func(text string) bool {
		prefix, err := netip.ParsePrefix(text)
		return err == nil && prefix.Contains(address)
	})
}

// readPage reads the ConfigMap of the address. Where there is none, that of Service
// default/kubernetes tells whether a history is kept at all: it is there as long as the cluster.
func (p *past) readPage(ctx context.Context, s *cli.Cluster) error {
	read := func(a netip.Addr) (*corev1.ConfigMap, error) {
		return objects.Get(ctx, s, types.NamespacedName{Namespace: p.namespace, Name: history.NameOf(history.ShardOf(a))}, &corev1.ConfigMap{})
	}
	o, err := read(p.address)
	switch {
	case apierrors.IsForbidden(err):
		p.refused = true
		return nil
	case err != nil:
		return err
	case o != nil:
		p.kept = true
		p.page, _ = history.ReadPage(o.Data) // what is no record is none of the operator's
		return nil
	}
	first, err := objects.Get(ctx, s, types.NamespacedName{Namespace: metav1.NamespaceDefault, Name: "kubernetes"}, &corev1.Service{})
	if err != nil || first == nil {
		return cli.Permission(err)
	}
	for _, a := range addressindex.ClusterIPs(first) {
		o, err := read(a)
		if err != nil {
			return err
		}
		p.kept = p.kept || o != nil
	}
	return nil
}

// look notes whether the Service of an open record has the address.
func (p *past) look(ctx context.Context, s *cli.Cluster, r history.Record) error {
	service := p.parent
	if service == nil || client.ObjectKeyFromObject(service) != r.Service {
		var err error
		if service, err = objects.Get(ctx, s, r.Service, &corev1.Service{}); err != nil {
			return cli.Permission(err)
		}
	}
	if service == nil {
		return nil
	}
	named := r.Beside() && p.ip != nil && upstream.Service(p.ip) == r.Service
	if named || slices.Contains(addressindex.ClusterIPs(service), p.address) {
		p.held[r.Service] = service.UID
	}
	return nil
}

// told is what is printed.
type told struct {
	Kind    string     `json:"kind"`
	Address netip.Addr `json:"address"`
	// Kept says whether a history is kept, and could be read; Seen until when it is complete.
	Kept  bool      `json:"kept"`
	Seen  time.Time `json:"seen,omitzero"`
	Items []owner   `json:"items"`
	Notes []string  `json:"notes,omitempty"`
}

// owner is a Service that has, or had, the address. Times that are not known better than after a
// time have that beside them.
type owner struct {
	Service   string    `json:"service"`
	UID       types.UID `json:"uid,omitempty"`
	From      time.Time `json:"from,omitzero"`
	FromAfter time.Time `json:"fromAfter,omitzero"`
	Came      string    `json:"came,omitempty"`
	To        time.Time `json:"to,omitzero"`
	ToAfter   time.Time `json:"toAfter,omitzero"`
	Ended     string    `json:"ended,omitempty"`
}

func newOwner(r history.Record) owner {
	return owner{r.Service.String(), r.UID, r.From.At, r.From.After, r.Came, r.To.At, r.To.After, r.Ended}
}

// decide puts together what is written and what is there.
func (p past) decide() told {
	out := told{Kind: "AddressHistory", Address: p.address, Kept: p.kept, Seen: p.page.Seen, Items: []owner{}}
	known, outdated := false, false
	for _, r := range p.page.Of(p.address) {
		uid, holds := p.held[r.Service]
		if r.Open() && (!holds || r.UID != "" && r.UID != uid) {
			r.To, r.Ended, outdated = history.Moment{After: p.page.Seen}, history.Unseen, true
		}
		known = known || r.Open() && p.parent != nil && r.Service == client.ObjectKeyFromObject(p.parent)
		out.Items = append(out.Items, newOwner(r))
	}
	if now, ok := p.present(); ok && !known {
		out.Items = slices.Insert(out.Items, 0, now)
		outdated = outdated || p.kept
	}
	out.Notes = p.notes(out, outdated)
	return out
}

// present is what the IPAddress tells without a history: who has the address or, while it cools
// down, who had it.
func (p past) present() (o owner, ok bool) {
	switch {
	case p.ip == nil:
		return o, false
	case p.parent != nil:
		return owner{Service: client.ObjectKeyFromObject(p.parent).String(), UID: p.parent.UID, From: p.ip.CreationTimestamp.UTC()}, true
	case upstream.ManagedByOperator(p.ip) && len(p.page.Of(p.address)) == 0:
		last := addressindex.ReadCoolDown(p.ip.Annotations, p.ip.CreationTimestamp.Time)
		return owner{Service: last.Service.String(), To: last.Released.UTC().Truncate(time.Second)}, last.Service.Name != ""
	default:
		return o, false
	}
}

func (p past) notes(out told, outdated bool) (notes []string) {
	say := func(format string, args ...any) { notes = append(notes, fmt.Sprintf(format, args...)) }
	if !p.offered {
		say("No ServiceCIDR has %s: no Service gets it as its ClusterIP.", p.address)
	}
	switch {
	case p.refused:
		say("You may not read the history: that takes the right to get configmaps in namespace %s. Who has the address now is all that can be told.", p.namespace)
	case !p.kept:
		say("No history is kept in namespace %s: the operator does not know who had %s before. Add the component config/components/history to have one from then on.", p.namespace, p.address)
	case outdated:
		say("The history was last written at %s, before the last change of this address: the operator writes a change within a minute or two, if it runs with --history.", p.page.Seen.Format(time.RFC3339))
	case len(out.Items) == 0:
		say("No Service has had %s since the history began, as far as it reaches back.", p.address)
	}
	return notes
}

func listOwners(h told) cli.Listing {
	l := cli.Listing{Value: h, Table: metav1.Table{ColumnDefinitions: cli.Columns("SERVICE", "FROM", "TO", "CAME", "ENDED", "+UID")}}
	for _, o := range h.Items {
		l.Names = append(l.Names, "service/"+o.Service)
		l.Table.Rows = append(l.Table.Rows, metav1.TableRow{Cells: []any{
			o.Service, when(o.From, o.FromAfter), when(o.To, o.ToAfter), cmp.Or(o.Came, "<unknown>"), cmp.Or(o.Ended, "<none>"), cmp.Or(string(o.UID), "<unknown>"),
		}})
	}
	return l
}

// when is a time, or the two between which it was.
func when(at, after time.Time) string {
	switch {
	case at.IsZero() && after.IsZero():
		return "<none>"
	case after.IsZero():
		return at.Format(time.RFC3339)
	case at.IsZero():
		return "after " + after.Format(time.RFC3339)
	default:
		return after.Format(time.RFC3339) + ".." + at.Format(time.RFC3339)
	}
}
