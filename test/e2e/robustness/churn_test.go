package robustness_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/test/e2e/internal/environment"
	"github.com/clusterip-operator/clusterip-operator/test/e2e/internal/ruleset"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/network"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
)

// churn changes Services at random, but for what traffic needs: living servers always serve the
// busy Service, whatever else becomes of it, and the Service calls stays as it is.
type churn struct {
	env    *fixture
	random *rand.Rand
	made   int
	alive  []*corev1.Service
	dead   []string // addresses of Services that are gone
	served map[string]bool
}

func newChurn(env *fixture) *churn {
	return &churn{env: env, random: rand.New(rand.NewPCG(uint64(GinkgoRandomSeed()), 1)), served: map[string]bool{}} //nolint:gosec // a test's
}

// step makes one change.
func (c *churn) step(ctx context.Context) {
	GinkgoHelper()
	switch n := c.random.IntN(100); {
	case n < 40:
		c.env.Endpoints(ctx, c.env.busy, c.endpoints(1+c.random.IntN(24))...)
	case n < 50:
		c.env.busy = c.env.Update(ctx, c.env.busy.Name, c.decorate)
	case n < 70 || len(c.alive) == 0:
		c.create(ctx)
	case n < 80 && len(c.alive) > 10:
		c.remove(ctx)
	case n < 90:
		c.supply(ctx, c.any())
	default:
		service := c.any()
		*service = *c.env.Update(ctx, service.Name, c.alter)
	}
}

func (c *churn) any() *corev1.Service { return c.alive[c.random.IntN(len(c.alive))] }

// endpoints picks n of the addresses that the pods have.
func (c *churn) endpoints(n int) (some []environment.Endpoint) {
	for _, i := range c.random.Perm(50)[:n] {
		e := environment.Endpoint{Of: []*network.Namespace{c.env.Pod2, c.env.RemotePod}[i%2], Extra: i / 2}
		if i == 0 {
			e = environment.Endpoint{Of: c.env.Pod1}
		}
		some = append(some, e)
	}
	return some
}

// decorate changes the busy Service in ways that its clients must not notice.
func (c *churn) decorate(s *corev1.Service) {
	switch c.random.IntN(4) {
	case 0:
		toggleAffinity(s)
	case 1:
		extra := corev1.ServicePort{Name: "extra", Port: 81, Protocol: corev1.ProtocolUDP}
		s.Spec.Ports = append(s.Spec.Ports[:1], extra)
	case 2:
		s.Spec.Ports = s.Spec.Ports[:1]
	case 3:
		s.Spec.ExternalIPs = nil
		for i := range c.random.IntN(4) {
			s.Spec.ExternalIPs = append(s.Spec.ExternalIPs, network.VirtualAddr(network.Families[i%2], 10+i).String())
		}
	}
}

func toggleAffinity(s *corev1.Service) {
	s.Spec.SessionAffinity = map[corev1.ServiceAffinity]corev1.ServiceAffinity{
		corev1.ServiceAffinityNone: corev1.ServiceAffinityClientIP, corev1.ServiceAffinityClientIP: corev1.ServiceAffinityNone,
	}[s.Spec.SessionAffinity]
	s.Spec.SessionAffinityConfig = nil
}

// create makes a Service, half of the time at an address beside that of the busy one.
func (c *churn) create(ctx context.Context) {
	GinkgoHelper()
	c.made++
	service := c.env.NewService(fmt.Sprintf("churn-%d", c.made))
	if c.random.IntN(2) == 0 {
		framework.WithClusterIPs(c.beside(0), c.beside(1))(service)
	}
	created, err := c.env.Cluster.Client().CoreV1().Services(service.Namespace).Create(ctx, service, metav1.CreateOptions{})
	if apierrors.IsInvalid(err) {
		return // another Service has the address
	}
	Expect(err).NotTo(HaveOccurred())
	c.alive = append(c.alive, created)
	c.dead = slices.DeleteFunc(c.dead, func(address string) bool { return slices.Contains(created.Spec.ClusterIPs, address) })
	c.supply(ctx, created)
}

// beside returns an address that shares most bits with the busy Service's i-th.
func (c *churn) beside(i int) string {
	b := netip.MustParseAddr(c.env.busy.Spec.ClusterIPs[i]).AsSlice()
	b[len(b)-1] ^= byte(1 << c.random.IntN(8))
	a, _ := netip.AddrFromSlice(b)
	return a.String()
}

func (c *churn) remove(ctx context.Context) {
	GinkgoHelper()
	i := c.random.IntN(len(c.alive))
	c.env.Delete(ctx, c.alive[i].Name)
	c.dead = append(c.dead, c.alive[i].Spec.ClusterIPs...)
	c.alive = slices.Delete(c.alive, i, i+1)
}

// supply gives a Service other endpoints, none at times.
func (c *churn) supply(ctx context.Context, service *corev1.Service) {
	GinkgoHelper()
	n := c.random.IntN(12)
	c.served[service.Name] = n > 0
	c.env.Endpoints(ctx, service, c.endpoints(n)...)
}

// alter changes a Service so that its ClusterIP remains served.
func (c *churn) alter(s *corev1.Service) {
	switch c.random.IntN(4) {
	case 0:
		toggleAffinity(s)
	case 1:
		s.Spec.Type = corev1.ServiceTypeNodePort
	case 2:
		s.Spec.Type, s.Spec.Ports[0].NodePort, s.Spec.ExternalTrafficPolicy = corev1.ServiceTypeClusterIP, 0, ""
	case 3:
		if s.Spec.Type == corev1.ServiceTypeNodePort {
			s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
		}
	}
}

// expectServed expects that all Services are served as the API server has them.
func (c *churn) expectServed() {
	GinkgoHelper()
	ends := map[netip.AddrPort]network.Outcome{}
	for _, address := range c.dead {
		ends[port80(address)] = network.Dropped
	}
	for _, service := range c.alive {
		for _, f := range network.Families {
			ends[environment.VIP(service, f)] = network.Refused
			if c.served[service.Name] {
				ends[environment.VIP(service, f)] = network.Connected
			}
		}
	}
	Eventually(func() map[string]string { return c.wrong(ends) }).WithTimeout(environment.Soon).Should(BeEmpty())
}

// wrong asks all addresses side by side and returns those that do not end as they should.
func (c *churn) wrong(ends map[netip.AddrPort]network.Outcome) map[string]string {
	var mu sync.Mutex
	wrong := map[string]string{}
	var asking errgroup.Group
	asking.SetLimit(20)
	for to, want := range ends {
		asking.Go(func() error {
			result := c.env.Pod1.Dial(network.Probe{To: to, Timeout: 2 * network.DropTimeout})
			if result.Outcome != want {
				mu.Lock()
				defer mu.Unlock()
				wrong[to.String()] = fmt.Sprintf("%s, want %s", result, want)
			}
			return nil
		})
	}
	_ = asking.Wait()
	return wrong
}

// run makes changes under traffic.
func (c *churn) run(ctx context.Context, changes int, each func(i int)) {
	GinkgoHelper()
	traffic := c.env.Traffic(c.env.busy, c.env.calls)
	start := time.Now()
	for i := range changes {
		c.step(ctx)
		each(i)
	}
	AddReportEntry("changes", ReportEntryVisibilityAlways, fmt.Sprintf("%d in %s", changes, time.Since(start)))
	c.expectServed()
	traffic.LostNothing()
}

// fromScratch expects the agent's rules to be those that a new agent would write.
func (env *fixture) fromScratch(ctx context.Context) {
	GinkgoHelper()
	before := env.stableRules(ctx).Lasting()
	Expect(env.Agent.Stop()).To(Succeed())
	env.clean(ctx)
	Expect(env.Agent.Start(ctx)).To(Succeed())
	Expect(before.Diff(env.Ours(ctx).Lasting())).To(BeEmpty())
}

// Each has its own control plane: so many addresses' remains occupy an API server for minutes.
var _ = Describe("An agent that has much to do", func() {
	start := func(ctx context.Context, mode string) *fixture {
		return newFixture(ctx, suite.ControlPlane(ctx, framework.Options{}), mode)
	}

	DescribeTable("loses nothing in 250 changes of Services and endpoints", Label("long"), func(ctx SpecContext, mode string) {
		env := start(ctx, mode)
		newChurn(env).run(ctx, 250, func(int) {})
		env.fromScratch(ctx)
	}, environment.EachMode("250 changes"))

	DescribeTable("loses nothing in 2,000, with restarts, failures and dead API servers between them", Label("soak"),
		func(ctx SpecContext, mode string) {
			env := start(ctx, mode)
			newChurn(env).run(ctx, 2000, func(i int) { env.disturb(ctx, i) })
			env.fromScratch(ctx)
		}, environment.EachMode("2,000 changes"))

	// A thousand are in TestChangesUnderLoad of package ipvs, where they take two minutes.
	It("loses nothing in 250, in mode ipvs, though it is killed again and again", Label(environment.Balanced), func(ctx SpecContext) {
		env := newFixture(ctx, environment.Cluster, environment.Balanced)
		newChurn(env).run(ctx, 250, func(i int) {
			if i%60 == 30 {
				Expect(env.Agent.Kill()).To(Succeed())
				Expect(env.Agent.Start(ctx)).To(Succeed())
			}
		})
		env.fromScratch(ctx)
		Expect(env.foreign.Diff(env.Rules(ctx).Without(ruleset.Agent))).To(BeEmpty(), "rules of others were changed")
	})
})

// disturb lets something go wrong at every hundredth step.
func (env *fixture) disturb(ctx context.Context, step int) {
	GinkgoHelper()
	switch step % 500 {
	case 100:
		Expect(env.Agent.Stop()).To(Succeed())
		Expect(env.Agent.Start(ctx)).To(Succeed())
	case 200:
		Expect(env.programs.Refuse(2)).To(Succeed())
		Expect(env.programs.Forget(2)).To(Succeed())
	case 300:
		Expect(env.Agent.Kill()).To(Succeed())
		Expect(env.Agent.Start(ctx)).To(Succeed())
	case 400:
		Expect(env.Cluster.API.Kill()).To(Succeed())
		Expect(env.Cluster.API.Start(ctx)).To(Succeed())
	}
}
