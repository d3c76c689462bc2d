package admission_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/test/bench/load"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
)

// crowd are many clients who create Services at once, and delete the oldest before that when there are enough of them.
type crowd struct {
	c       *cluster.Cluster
	clients int
	limit   int // Services that may be there
	prefix  string

	oldest chan string // names, in the order in which they were created
	n      atomic.Int64
	done   atomic.Int64 // requests that were answered, well or not
	tally  tally

	mu    sync.Mutex
	stays map[string]*stay // by the name of the Service
	lost  []loss
}

// stay is the time in which a Service may have had its addresses: from before the request for it until after its deletion.
type stay struct {
	addresses []string
	from, to  time.Time // to is zero while it is there
}

// loss is a request for an address that somebody had.
type loss struct {
	service, complaint string
	from, to           time.Time
}

func newCrowd(c *cluster.Cluster, prefix string, clients, limit int) *crowd {
	return &crowd{c: c, clients: clients, limit: limit, prefix: prefix, oldest: make(chan string, limit+2*clients), stays: map[string]*stay{}}
}

// create makes n Services with addresses of both families. What goes wrong with a creation is in the tally; what goes wrong with a
// deletion ends it.
func (w *crowd) create(ctx context.Context, n int) {
	GinkgoHelper()
	_, err := load.Load{Workers: w.clients, Count: n}.Run(ctx, func(ctx context.Context, _ int) error {
		defer w.done.Add(1)
		if err := w.makeRoom(ctx); err != nil {
			return err
		}
		w.one(ctx)
		return nil
	})
	if err != nil {
		Fail(fmt.Sprintf("making room: %v", err))
	}
}

// makeRoom deletes the oldest Service if the limit is reached, counting those that are on their way.
func (w *crowd) makeRoom(ctx context.Context) error {
	if len(w.oldest)+w.clients <= w.limit {
		return nil
	}
	name := <-w.oldest
	err := w.c.Client().CoreV1().Services(cluster.Namespace).Delete(ctx, name, metav1.DeleteOptions{})
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stays[name].to = time.Now()
	return err
}

func (w *crowd) one(ctx context.Context) {
	name := fmt.Sprintf("%s-%d", w.prefix, w.n.Add(1))
	start := time.Now()
	service, err := w.c.TryService(ctx, name, framework.RequireDualStack())
	w.tally.book(time.Since(start), err)
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case err == nil:
		w.stays[name] = &stay{addresses: service.Spec.ClusterIPs, from: start}
		w.oldest <- name
	case outcomeOf(err) == collided:
		w.lost = append(w.lost, loss{name, err.Error(), start, time.Now()})
	}
}

// collisions lists the requests that were refused for an address that somebody had, with those who may have been it. Ours are those where
// nobody comes into question whom the API server has chosen the addresses of by itself, for want of an answer from us, or of one in time.
func (w *crowd) collisions(testimony map[string]string) (ours, others []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, l := range w.lost {
		text, foreign := l.service+": "+l.complaint, false
		for name, s := range w.stays {
			if s.from.After(l.to) || !s.to.IsZero() && s.to.Before(l.from) || !slices.ContainsFunc(s.addresses, l.names) {
				continue
			}
			foreign = foreign || testimony[name] != steeredByUs
			text += fmt.Sprintf("; %s may have had it (%s), asked for %s before", name, testimony[name], l.from.Sub(s.from).Round(time.Millisecond))
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

// forget takes a Service out of those that are there.
func (w *crowd) forget(gone string) {
	for range len(w.oldest) {
		if name := <-w.oldest; name != gone {
			w.oldest <- name
		}
	}
}

// there returns the names of those that should be there now.
func (w *crowd) there() map[string]bool {
	names := map[string]bool{}
	for range len(w.oldest) {
		name := <-w.oldest
		names[name] = true
		w.oldest <- name
	}
	return names
}

// doubles lists addresses that two Services have, and Services without two addresses.
func doubles(services []corev1.Service) (wrong []string) {
	owner := map[string]string{}
	for _, service := range services {
		if service.Name != "kubernetes" && len(service.Spec.ClusterIPs) != 2 {
			wrong = append(wrong, fmt.Sprintf("%s has %v", service.Name, service.Spec.ClusterIPs))
		}
		for _, address := range service.Spec.ClusterIPs {
			if other, taken := owner[address]; taken {
				wrong = append(wrong, fmt.Sprintf("%s and %s have %s", other, service.Name, address))
			}
			owner[address] = service.Name
		}
	}
	return wrong
}

func TestCollisionsAreOursUnlessTheAPIServerHadAPart(t *testing.T) {
	at := func(seconds int) time.Time { return time.Unix(int64(seconds), 0) }
	w := &crowd{
		stays: map[string]*stay{
			"ours":    {[]string{"10.96.0.7"}, at(1), time.Time{}},
			"foreign": {[]string{"10.96.0.8"}, at(1), time.Time{}},
			"gone":    {[]string{"10.96.0.7"}, at(1), at(2)},
			"prefix":  {[]string{"10.96.0.70"}, at(1), time.Time{}},
		},
		lost: []loss{
			{"a", "failed to allocate IP 10.96.0.7: provided IP is already allocated", at(3), at(4)},
			{"b", "failed to allocate IP 10.96.0.8: provided IP is already allocated", at(3), at(4)},
		},
	}
	ours, others := w.collisions(map[string]string{"ours": steeredByUs, "foreign": unasked})
	if len(ours) != 1 || !strings.HasPrefix(ours[0], "a: ") || strings.Contains(ours[0], "gone") || strings.Contains(ours[0], "prefix") {
		t.Errorf("ours: %q", ours)
	}
	if len(others) != 1 || !strings.HasPrefix(others[0], "b: ") {
		t.Errorf("others: %q", others)
	}
}
