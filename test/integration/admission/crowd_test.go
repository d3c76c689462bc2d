package admission_test

import (
	"context"
	"fmt"
	"sync/atomic"
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
}

func newCrowd(c *cluster.Cluster, prefix string, clients, limit int) *crowd {
	return &crowd{c: c, clients: clients, limit: limit, prefix: prefix, oldest: make(chan string, limit+2*clients)}
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
	return w.c.Client().CoreV1().Services(cluster.Namespace).Delete(ctx, <-w.oldest, metav1.DeleteOptions{})
}

func (w *crowd) one(ctx context.Context) {
	name := fmt.Sprintf("%s-%d", w.prefix, w.n.Add(1))
	start := time.Now()
	_, err := w.c.TryService(ctx, name, framework.RequireDualStack())
	w.tally.book(time.Since(start), err)
	if err == nil {
		w.oldest <- name
	}
}

// names returns those that should be there now.
func (w *crowd) names() map[string]bool {
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
