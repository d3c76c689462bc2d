package soak_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/traffic"
)

const (
	pause    = 50 * time.Millisecond // between two requests of a client, on average
	ownLimit = 40                    // Services of a client
)

// clients create, change and delete Services at random, each its own.
type clients struct {
	apis                          []*framework.APIServer
	creations, changes, deletions traffic.Tally
	drawn                         traffic.Tally // of the creations, those that ask for any open address: there is always one
}

// run lets n clients go on until ctx ends.
func (c *clients) run(ctx context.Context, n int) {
	var all sync.WaitGroup
	for i := range n {
		one := &worker{clients: c, id: i, rng: random(i)}
		all.Go(func() {
			for ctx.Err() == nil {
				one.act(ctx)
				sleep(ctx, time.Duration(one.rng.Int64N(int64(2*pause))))
			}
		})
	}
	all.Wait()
}

// random returns what one goroutine decides by, the same for the same seed.
func random(stream int) *rand.Rand {
	return rand.New(rand.NewPCG(uint64(GinkgoRandomSeed()), uint64(stream)))
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// worker is one of them.
type worker struct {
	*clients
	id, n int
	rng   *rand.Rand
	own   []*corev1.Service // as the API server last returned them
}

func (c *worker) act(ctx context.Context) {
	switch roll := c.rng.IntN(10); {
	case len(c.own) == 0 || roll < 5 && len(c.own) < ownLimit:
		c.create(ctx)
	case roll < 7:
		c.change(ctx, c.rng.IntN(len(c.own)))
	default:
		c.remove(ctx, c.rng.IntN(len(c.own)))
	}
}

// api is the API server that the next request goes to.
func (c *worker) api() *framework.APIServer { return c.apis[c.rng.IntN(len(c.apis))] }

func (c *worker) create(ctx context.Context) {
	wanted := c.wanted()
	begin := time.Now()
	created, err := c.api().Client().CoreV1().Services(wanted.Namespace).Create(ctx, wanted, metav1.CreateOptions{})
	if ctx.Err() != nil {
		return
	}
	took := time.Since(begin)
	c.creations.Add(took, err)
	if wanted.Namespace == stranger && wanted.Spec.ClusterIP == "" {
		c.drawn.Add(took, err)
	}
	if err == nil {
		c.own = append(c.own, created)
	}
}

// wanted is a new Service of one of the kinds that there are.
func (c *worker) wanted() *corev1.Service {
	c.n++
	namespace := []string{tenant, stranger}[c.rng.IntN(2)]
	if c.id == 0 && c.n%10 == 0 {
		return framework.NewService(tenant, "reserved", framework.RequireDualStack())
	}
	service := framework.NewService(namespace, fmt.Sprintf("web-%d-%d", c.id, c.n))
	switch c.rng.IntN(10) {
	case 0, 1:
		framework.RequireDualStack()(service)
	case 2:
		framework.PreferDualStack()(service)
	case 3:
		framework.WithFamilies(corev1.IPv6Protocol)(service)
	case 4:
		framework.Headless()(service)
	case 5:
		service.Name, service.GenerateName = "", "made-up-"
	case 6, 7:
		framework.WithClusterIPs(c.choose(namespace))(service)
	}
	return service
}

// choose returns an address of a static band. One in eight of a stranger's is the tenant's.
func (c *worker) choose(namespace string) string {
	network, last := 96, 63
	if namespace == tenant || c.rng.IntN(8) == 0 {
		network, last = 97, 16
	}
	if c.rng.IntN(2) == 0 {
		return fmt.Sprintf("10.%d.0.%d", network, 2+c.rng.IntN(last-1))
	}
	return fmt.Sprintf("fd00:10:%d::%x", network, 2+c.rng.IntN(last-1))
}

// change writes the i-th Service in one of the ways in which its addresses may come, go or stay.
func (c *worker) change(ctx context.Context, i int) {
	changed := c.own[i].DeepCopy()
	spec := &changed.Spec
	switch headless := slices.Equal(spec.ClusterIPs, []string{corev1.ClusterIPNone}); {
	case spec.Type == corev1.ServiceTypeExternalName:
		spec.Type, spec.ExternalName = corev1.ServiceTypeClusterIP, ""
	case headless || c.rng.IntN(3) == 0:
		metav1.SetMetaDataLabel(&changed.ObjectMeta, "changed", fmt.Sprint(c.n))
	case c.rng.IntN(2) == 0:
		spec.Type, spec.ExternalName = corev1.ServiceTypeExternalName, "example.com"
		spec.ClusterIP, spec.ClusterIPs, spec.IPFamilies, spec.IPFamilyPolicy = "", nil, nil, nil
	case len(spec.ClusterIPs) == 1:
		spec.IPFamilyPolicy = new(corev1.IPFamilyPolicyRequireDualStack)
	default:
		spec.IPFamilyPolicy = new(corev1.IPFamilyPolicySingleStack)
		spec.ClusterIPs, spec.IPFamilies = spec.ClusterIPs[:1], spec.IPFamilies[:1]
	}
	begin := time.Now()
	written, err := c.api().Client().CoreV1().Services(changed.Namespace).Update(ctx, changed, metav1.UpdateOptions{})
	if ctx.Err() != nil {
		return
	}
	c.changes.Add(time.Since(begin), err)
	if err == nil {
		c.own[i] = written
	}
}

// remove deletes the i-th Service. It is not touched again if the request's effect is unknown.
func (c *worker) remove(ctx context.Context, i int) {
	service := c.own[i]
	begin := time.Now()
	err := c.api().Client().CoreV1().Services(service.Namespace).Delete(ctx, service.Name, metav1.DeleteOptions{})
	if ctx.Err() != nil {
		return
	}
	c.deletions.Add(time.Since(begin), err)
	c.own = slices.Delete(c.own, i, i+1)
}

// String is for the report.
func (c *clients) String() string {
	return fmt.Sprintf("creations: %s\nchanges: %s\ndeletions: %s", c.creations.String(), c.changes.String(), c.deletions.String())
}
