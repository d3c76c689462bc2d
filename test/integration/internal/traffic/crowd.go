// Package traffic creates Services from many clients at once, and says what became of the requests.
//
// It models clients as a [Crowd], and answers as a [Tally].
//
// Start with [NewCrowd].
package traffic

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/test/bench/load"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/history"
)

// Crowd are clients that create Services at once, and delete the oldest when there are enough.
type Crowd struct {
	// Tally is what became of the creations.
	Tally Tally

	c              *cluster.Cluster
	prefix         string
	clients, limit int
	n, done        atomic.Int64

	mu     sync.Mutex
	oldest []string         // Services that are there, in the order in which they were created
	stays  map[string]*stay // by the name of the Service
	lost   []loss
}

// stay is when a Service may have had its addresses: from before its request to after its deletion.
type stay struct {
	addresses []string
	from, to  time.Time // to is zero while it is there
}

// loss is a request for an address that another Service had.
type loss struct {
	service, complaint string
	from, to           time.Time
}

// NewCrowd returns clients whose Services have names with a prefix, and are limit at most.
func NewCrowd(c *cluster.Cluster, prefix string, clients, limit int) *Crowd {
	return &Crowd{c: c, prefix: prefix, clients: clients, limit: limit, stays: map[string]*stay{}}
}

// Create makes n Services with addresses of both families. Failed creations are in the tally;
// failed deletions fail the spec.
func (w *Crowd) Create(ctx context.Context, n int) {
	GinkgoHelper()
	_, err := load.Load{Workers: w.clients, Count: n}.Run(ctx, func(ctx context.Context, _ int) error {
		defer w.done.Add(1)
		if err := w.makeRoom(ctx); err != nil {
			return err
		}
		w.createOne(ctx)
		return nil
	})
	if err != nil {
		Fail(fmt.Sprintf("making room: %v", err))
	}
}

// Done returns how many creations were answered so far, well or not.
func (w *Crowd) Done() int { return int(w.done.Load()) }

// Names returns the Services that should be there now.
func (w *Crowd) Names() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.oldest)
}

// makeRoom deletes the oldest Service if the limit is reached, with those on their way.
func (w *Crowd) makeRoom(ctx context.Context) error {
	name := w.takeOldest()
	if name == "" {
		return nil
	}
	err := w.c.Client().CoreV1().Services(cluster.Namespace).Delete(ctx, name, metav1.DeleteOptions{})
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stays[name].to = time.Now()
	return err
}

func (w *Crowd) takeOldest() (name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.oldest)+w.clients > w.limit {
		name, w.oldest = w.oldest[0], w.oldest[1:]
	}
	return name
}

func (w *Crowd) createOne(ctx context.Context) {
	name := fmt.Sprintf("%s-%d", w.prefix, w.n.Add(1))
	start := time.Now()
	service, err := w.c.TryService(ctx, name, framework.RequireDualStack())
	w.Tally.Add(time.Since(start), err)
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case err == nil:
		w.stays[name] = &stay{addresses: service.Spec.ClusterIPs, from: start}
		w.oldest = append(w.oldest, name)
	case OutcomeOf(err) == Collided:
		w.lost = append(w.lost, loss{name, err.Error(), start, time.Now()})
	}
}

// Collisions lists the requests refused for another Service's address, with the Services that may
// have had it. In ours the webhook chose all these addresses, in others the API server chose one.
func (w *Crowd) Collisions(requests []history.Request) (ours, others []string) {
	chosen := map[string]string{}
	for _, r := range requests {
		if r.Resource == "services" && r.Verb == "create" {
			chosen[r.Name] = r.Chosen
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, l := range w.lost {
		text, foreign := l.service+": "+l.complaint, false
		for name, s := range w.stays {
			if s.from.After(l.to) || !s.to.IsZero() && s.to.Before(l.from) || !slices.ContainsFunc(s.addresses, l.names) {
				continue
			}
			foreign = foreign || chosen[name] != history.ByWebhook
			text += fmt.Sprintf("; %s may have had it (chosen %s), asked for %s before", name, chosen[name], l.from.Sub(s.from).Round(time.Millisecond))
		}
		if foreign {
			others = append(others, text)
		} else {
			ours = append(ours, text)
		}
	}
	return ours, others
}

// names reports whether the complaint is about an address.
func (l loss) names(address string) bool {
	return strings.Contains(l.complaint, "allocate IP "+address+":")
}
