package upgrade_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/integration/internal/cluster"
	"github.com/clusterip-operator/clusterip-operator/test/integration/inventory"
)

// tick is the time from one act of a churn to the next.
const tick = 100 * time.Millisecond

// churn is the daily work of a cluster: ten times a second a client creates or deletes a Service,
// changes one between ClusterIP and ExternalName, or takes an address that was just freed.
type churn struct {
	random *rand.Rand
	cancel context.CancelFunc
	ended  chan struct{}
	acts   atomic.Int64

	// acting is held during an act.
	acting sync.Mutex
	doors  []*framework.Access // the API servers, each of which is asked in its turn
	asked  int

	// What the API server has confirmed; to be read after the end.
	living  map[string]*corev1.Service // under namespace/name
	gone    []string
	touched map[string]bool // what it has asked to delete or to change
	free    []string        // addresses of what was deleted
	failed  error           // the first refusal, which is none if the end was near
	taken   []string        // refusals of an address
}

// startChurn begins with the present Services. `-ginkgo.seed` repeats its acts, not their times.
func (s *environment) startChurn(ctx context.Context) *churn {
	GinkgoHelper()
	c := &churn{
		doors:  []*framework.Access{s.Access},
		random: rand.New(rand.NewPCG(uint64(GinkgoRandomSeed()), 1)), //nolint:gosec // an accident is no secret
		ended:  make(chan struct{}), living: map[string]*corev1.Service{}, touched: map[string]bool{},
	}
	for _, service := range s.Services(ctx) {
		if len(inventory.ClusterIPs(&service)) > 0 && service.Spec.Type == corev1.ServiceTypeClusterIP && service.Name != "kubernetes" {
			c.living[nameOf(&service)] = &service
		}
	}
	ctx, c.cancel = context.WithCancel(context.WithoutCancel(ctx)) // it ends with the calling node, and not with its call
	go c.run(ctx)
	DeferCleanup(c.end)
	return c
}

// end waits for the end, which also comes by itself when the API server no longer answers.
func (c *churn) end() {
	c.cancel()
	<-c.ended
}

// through sends all further acts to these API servers in turn. Earlier ones have been answered.
func (c *churn) through(servers ...*framework.APIServer) {
	c.still(func() {
		c.doors = nil
		for _, server := range servers {
			c.doors = append(c.doors, server.Access)
		}
	})
}

// still does something between two acts.
func (c *churn) still(do func()) {
	c.acting.Lock()
	defer c.acting.Unlock()
	do()
}

// waitFor waits until so many more acts are done.
func (c *churn) waitFor(n int64) {
	GinkgoHelper()
	until := c.acts.Load() + n
	Eventually(func(g Gomega) {
		g.Expect(c.ended).NotTo(BeClosed(), func() string { return fmt.Sprint("refused: ", c.failed) })
		g.Expect(c.acts.Load()).To(BeNumerically(">=", until))
	}).WithTimeout(max(time.Minute, time.Duration(n)*time.Second)).Should(Succeed()) // a busy machine does fewer in a second
}

func (c *churn) run(ctx context.Context) {
	defer close(c.ended)
	for ticker := time.NewTicker(tick); ; {
		select {
		case <-ctx.Done():
			ticker.Stop()
			return
		case <-ticker.C:
		}
		c.still(func() { c.failed = c.act(ctx) })
		if c.failed != nil {
			return
		}
		c.acts.Add(1)
	}
}

func (c *churn) act(ctx context.Context) error {
	names := slices.Sorted(maps.Keys(c.living)) // a map has an order of its own each time
	victim := c.living[names[c.random.IntN(len(names))]]
	switch dice := c.random.IntN(20); {
	case dice < 6:
		return c.create(ctx, framework.PreferDualStack())
	case dice < 8:
		return c.create(ctx, framework.WithFamilies(corev1.IPv4Protocol))
	case dice < 10:
		return c.create(ctx, framework.WithFamilies(corev1.IPv6Protocol))
	case dice < 13:
		return c.delete(ctx, victim)
	case dice < 15: // its address goes to the next at once
		if err := c.delete(ctx, victim); err != nil || len(c.free) == 0 {
			return err
		}
		return c.create(ctx, framework.WithClusterIPs(c.free[0]), framework.WithFamilies(framework.FamilyOf(c.free[0])))
	case victim.Spec.Type == corev1.ServiceTypeExternalName:
		return c.patch(ctx, victim, toClusterIP)
	default:
		return c.patch(ctx, victim, toExternalName)
	}
}

func (c *churn) create(ctx context.Context, options ...framework.ServiceOption) error {
	service := framework.NewService(cluster.Namespace, fmt.Sprintf("churn-%d", c.acts.Load()), options...)
	created, err := c.client(service.Namespace).Create(ctx, service, metav1.CreateOptions{})
	if err == nil {
		c.living[nameOf(created)] = created
	}
	return c.tolerate(err)
}

// client reaches the API server whose turn it is.
func (c *churn) client(namespace string) corev1client.ServiceInterface {
	c.asked++
	return c.doors[c.asked%len(c.doors)].Client().CoreV1().Services(namespace)
}

// tolerate notes that API servers do not agree, or did not, on what is free: specs look at it.
// 1.33 asks its bitmap, in which an address stays that 1.34 has freed, until a repair: its refusals
// go on after the last 1.34 has ended.
func (c *churn) tolerate(err error) error {
	if err != nil && strings.Contains(err.Error(), "provided IP is already allocated") {
		c.taken = append(c.taken, err.Error())
		return nil
	}
	return err
}

// expectRefused wants no more refusals of an address, since it was last called, than hasty API
// servers had written IPAddresses anew: they let such a one stand for a minute.
func (c *churn) expectRefused(hasty int) {
	GinkgoHelper()
	Expect(len(c.taken)).To(BeNumerically("<=", hasty), "%v", c.taken)
	c.taken = nil
}

// forget is called before the Service is written: without an answer its state is unknown.
func (c *churn) forget(service *corev1.Service) {
	delete(c.living, nameOf(service))
	c.touched[nameOf(service)] = true
}

func (c *churn) delete(ctx context.Context, service *corev1.Service) error {
	c.forget(service)
	if err := c.client(service.Namespace).Delete(ctx, service.Name, metav1.DeleteOptions{}); err != nil {
		return err
	}
	c.gone, c.free = append(c.gone, nameOf(service)), inventory.ClusterIPs(service)
	return nil
}

func (c *churn) patch(ctx context.Context, service *corev1.Service, patch string) error {
	c.forget(service)
	changed, err := c.client(service.Namespace).Patch(ctx, service.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	if err == nil {
		c.living[nameOf(changed)] = changed
	} else if err = c.tolerate(err); err == nil {
		c.living[nameOf(service)] = service // as it was
	}
	return err
}

// expectKept wants each Service to be as the API server has confirmed it. Call it after the end.
func (c *churn) expectKept(now snapshot) {
	GinkgoHelper()
	clusterIPs := now.clusterIPs()
	for name, service := range c.living {
		Expect(clusterIPs).To(HaveKeyWithValue(name, ConsistOf(service.Spec.ClusterIPs)), "what the API server has confirmed")
	}
	for _, name := range c.gone {
		Expect(clusterIPs).NotTo(HaveKey(name))
	}
}

func nameOf(service *corev1.Service) string { return service.Namespace + "/" + service.Name }
