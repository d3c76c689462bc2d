package console

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
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

	addresses   func() (addresses, error)
	allocations func() (allocations, error)
	report      func() (check.Report, error)
	status      func() (health.Installation, error)
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

// policy is a row of the policies.
type policy struct {
	Name       string                           `json:"name"`
	Priority   int32                            `json:"priority"`
	Exclusive  bool                             `json:"exclusive"`
	Allocation v1alpha1.Allocation              `json:"allocation"`
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
			Name: p.Name, Priority: p.Spec.Priority, Exclusive: p.Spec.Exclusive, Allocation: p.Spec.Allocation, OnFull: p.Spec.OnFull, Status: p.Status,
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
