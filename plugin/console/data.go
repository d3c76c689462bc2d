package console

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/version"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/plugin/check"
	"github.com/clusterip-operator/clusterip-operator/plugin/cli"
	"github.com/clusterip-operator/clusterip-operator/plugin/health"
	"github.com/clusterip-operator/clusterip-operator/plugin/inspect"
	"github.com/clusterip-operator/clusterip-operator/plugin/view"
)

// data answers what the console's page asks.
type data struct {
	session *cli.Cluster
	view    *view.View

	wrong       func() ([]netip.Addr, error)
	allocations func() (allocations, error)
	report      func() (check.Report, error)
	status      func() (health.Installation, error)
}

// allocations are all addresses in use at a moment. Curves end there, and so stay until the next.
type allocations struct {
	all []view.Allocation
	at  time.Time
}

// head is what the head of the page shows.
type head struct {
	Host string `json:"host"`
	// Version is that of the API server; Error says why it does not answer.
	Version string `json:"version,omitempty"`
	Error   string `json:"error,omitempty"`
	// ClusterIPs are those of all Services, WithIPAddress those that have their IPAddress. Bitmap: the
	// API server uses the bitmap in etcd, so that the second number tells how far a migration is.
	ClusterIPs    int  `json:"clusterIPs"`
	WithIPAddress int  `json:"withIPAddress"`
	Bitmap        bool `json:"bitmap,omitempty"`
}

// answersWithin bounds how long the API server's version may take. The page asks every two seconds.
const answersWithin = 1500 * time.Millisecond

func (d *data) state(ctx context.Context, _ url.Values) (any, error) {
	out := head{Host: d.session.Config.Host, Bitmap: d.view.Bitmap()}
	out.ClusterIPs, out.WithIPAddress = d.view.Relation()
	ctx, cancel := context.WithTimeout(ctx, answersWithin)
	defer cancel()
	text, err := d.session.Discovery.RESTClient().Get().AbsPath("/version").DoRaw(ctx) // every user may ask this
	if err != nil {
		out.Error = err.Error()
		return out, nil
	}
	v := version.Info{}
	err = json.Unmarshal(text, &v)
	out.Version = v.GitVersion
	return out, err
}

// row is a row of the ranges, with what is drawn below them.
type row struct {
	inspect.Range
	Conditions []metav1.Condition `json:"conditions"`
	// History are times in seconds, and how many of the addresses in use now were taken by then.
	History [][2]int64 `json:"history"`
}

func (d *data) ranges(ctx context.Context, _ url.Values) (any, error) {
	cidrs, policies, err := d.session.RangesAndPolicies(ctx)
	if err != nil {
		return nil, err
	}
	allocations, err := d.allocations()
	if err != nil {
		return nil, err
	}
	all := []row{}
	for i := range cidrs.Items {
		o := &cidrs.Items[i]
		told, _ := inspect.ToldUsage(o)
		for j, u := range inspect.CountedUsage(o, d.view).Ranges {
			if j < len(told.Ranges) { // the view counts now, only the operator knows growth
				u.Static.GrowthPerDay, u.Dynamic.GrowthPerDay = told.Ranges[j].Static.GrowthPerDay, told.Ranges[j].Dynamic.GrowthPerDay
			}
			all = append(all, row{inspect.NewRange(o, u, policies.Items), append([]metav1.Condition{}, o.Status.Conditions...), history(allocations.all, u.CIDR, allocations.at)})
		}
	}
	slices.SortStableFunc(all, func(a, b row) int { return inspect.BySoonestFull(a.Range, b.Range) })
	return all, nil
}

// historyPoints is how many points of a curve are drawn.
const historyPoints = 100

// history counts a range's allocations that existed at equal steps from the first one until now.
func history(sorted []view.Allocation, cidr string, now time.Time) [][2]int64 {
	out := [][2]int64{}
	p, err := netip.ParsePrefix(cidr)
	if err != nil {
		return out
	}
	from, _ := slices.BinarySearchFunc(sorted, p.Addr(), func(a view.Allocation, b netip.Addr) int { return a.Address.Compare(b) })
	var times []int64
	for ; from < len(sorted) && p.Contains(sorted[from].Address); from++ {
		times = append(times, sorted[from].Since.Unix())
	}
	if len(times) == 0 {
		return out
	}
	slices.Sort(times)
	first, last := times[0], max(now.Unix(), times[len(times)-1])
	for i := range int64(historyPoints) {
		t := first + (last-first)*i/(historyPoints-1)
		n, _ := slices.BinarySearch(times, t+1)
		if len(out) > 0 && out[len(out)-1][0] == t {
			out = out[:len(out)-1]
		}
		out = append(out, [2]int64{t, int64(n)})
	}
	return out
}

// policy is a row of the policies.
type policy struct {
	Name       string                           `json:"name"`
	Priority   int32                            `json:"priority"`
	Exclusive  bool                             `json:"exclusive"`
	OnFull     v1alpha1.OnFull                  `json:"onFull"`
	Namespaces string                           `json:"namespaces"`
	Services   string                           `json:"services"`
	Status     v1alpha1.ServiceCIDRPolicyStatus `json:"status"`
}

func (d *data) policies(ctx context.Context, _ url.Values) (any, error) {
	_, policies, err := d.session.RangesAndPolicies(ctx)
	out := []policy{}
	for _, p := range policies.Items {
		out = append(out, policy{
			Name: p.Name, Priority: p.Spec.Priority, Exclusive: p.Spec.Exclusive, OnFull: p.Spec.OnFull, Status: p.Status,
			Namespaces: selects(p.Spec.NamespaceSelector), Services: selects(p.Spec.ServiceSelector),
		})
	}
	slices.SortFunc(out, func(a, b policy) int {
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.Name, b.Name))
	})
	return out, err
}

// selects writes a selector as kubectl does. One that is left out selects all.
func selects(s *metav1.LabelSelector) string {
	if s == nil || len(s.MatchLabels)+len(s.MatchExpressions) == 0 {
		return "all"
	}
	return metav1.FormatLabelSelector(s)
}

func (d *data) findings(context.Context, url.Values) (any, error) { return d.report() }

func (d *data) installation(context.Context, url.Values) (any, error) { return d.status() }

// why answers as the command does, in its words, and says what is wrong with the question.
func (d *data) why(ctx context.Context, query url.Values) (any, error) {
	var b strings.Builder
	explain, err := inspect.Question(d.session, query.Get("subject"), nil)
	if err != nil {
		return map[string]string{"text": err.Error()}, nil
	}
	switch out, err := explain(ctx); {
	case errors.Is(err, inspect.ErrNothing):
		b.WriteString(err.Error())
	case err != nil:
		return nil, err
	default:
		out.Describe(&b, time.Now())
	}
	return map[string]string{"text": b.String()}, nil
}
