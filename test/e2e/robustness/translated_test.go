package robustness_test

import (
	"context"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	"github.com/clusterip-operator/clusterip-operator/test/e2e/internal/environment"
	"github.com/clusterip-operator/clusterip-operator/test/framework/network"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
)

// translating is an Environment whose agent translates the connections of pods at connect().
type translating struct {
	*environment.Environment
	service *corev1.Service
}

func newTranslating(ctx context.Context, mode string) *translating {
	GinkgoHelper()
	env := &translating{Environment: environment.Open(ctx, environment.Cluster, mode)}
	env.Options.SocketLB = "pods"
	if env.Options.CgroupRoot == "" {
		env.Options.CgroupRoot = suite.Must(env.UseCgroups())
	}
	env.service = env.Serve(ctx, "translated", env.some(1, 10))
	env.StartAgent(ctx)
	env.Served(env.service)
	env.awaitTaken(ctx)
	return env
}

// some are addresses of another pod.
func (env *translating) some(from, to int) (all []environment.Endpoint) {
	for i := from; i <= to; i++ {
		all = append(all, environment.Endpoint{Of: env.Pod2, Extra: i})
	}
	return all
}

// taken is how many connections were translated, as this agent counts.
func (env *translating) taken(ctx context.Context) float64 {
	GinkgoHelper()
	metrics, err := env.Agent.Metrics(ctx)
	Expect(err).NotTo(HaveOccurred())
	n, _ := metrics.Value("clusterip_proxyagent_socketlb_connections_total", "service", env.service.Name)
	return n
}

// awaitTaken makes connections until the agent has counted more, of both families.
func (env *translating) awaitTaken(ctx context.Context) {
	GinkgoHelper()
	for _, f := range network.Families {
		before := env.taken(ctx)
		Eventually(func() float64 {
			Expect(env.Pod1.Dial(network.Probe{To: environment.VIP(env.service, f)})).To(environment.End(network.Connected))
			return env.taken(ctx)
		}).WithTimeout(environment.Soon).Should(BeNumerically(">", before))
	}
}

// load makes connections from a pod as fast as some clients can, and returns what ends it and tells
// how many there were, and which failed.
func (env *translating) load() (stop func() (tried int, losses []string)) {
	GinkgoHelper()
	traffic := environment.NewTraffic()
	for _, f := range network.Families {
		for i := range 8 {
			traffic.Hammer(fmt.Sprintf("client %d over %s", i, f), env.Pod1, environment.VIP(env.service, f))
		}
	}
	return func() (int, []string) {
		traffic.Stop()
		return traffic.Count()
	}
}

// change gives the Service other endpoints again and again, until it is stopped.
func (env *translating) change(ctx context.Context) (stop func()) {
	ended, over := make(chan struct{}), make(chan struct{})
	go func() {
		defer GinkgoRecover()
		defer close(over)
		for i := 0; ; i++ {
			select {
			case <-ended:
				return
			case <-time.After(20 * time.Millisecond):
				env.Endpoints(ctx, env.service, env.some(1+i%10, 10+i%15)...)
			}
		}
	}()
	return func() { close(ended); <-over }
}

var _ = Describe("An agent that translates connections at connect()", func() {
	for _, mode := range []string{environment.Native, "nft"} {
		It("loses none when it is killed while it writes, leaves them to rules, and takes them up again, "+mode,
			environment.LabelsOf([]string{environment.Native, "nft"}, mode, "translated"), func(ctx SpecContext) {
				env := newTranslating(ctx, mode)
				stop, still := env.load(), env.change(ctx)
				for i := range 5 {
					time.Sleep(time.Duration(150+70*i) * time.Millisecond)
					Expect(env.Agent.Kill()).To(Succeed())
					for _, f := range network.Families { // rules serve what comes next
						Expect(env.Pod1.Dial(network.Probe{To: environment.VIP(env.service, f)})).To(environment.End(network.Connected))
					}
					Expect(env.Agent.Start(ctx)).To(Succeed())
					env.awaitTaken(ctx)
				}
				Expect(env.Agent.Stop()).To(Succeed())
				Expect(env.Agent.Start(ctx)).To(Succeed())
				env.awaitTaken(ctx)
				still()
				tried, losses := stop()
				Expect(losses).To(BeEmpty(), "of %d connections", tried)
				AddReportEntry(fmt.Sprintf("%d connections", tried))
			})

		It("says what it does, and serves by rules where it may not, "+mode, environment.LabelsOf([]string{environment.Native, "nft"}, mode, "said"), func(ctx SpecContext) {
			env := newTranslating(ctx, mode)
			told := suite.Must(env.Agent.Get(ctx, "/debug/dump?of="+env.Name+"/"+env.service.Name))
			for _, f := range network.Families {
				Expect(told).To(ContainSubstring("%s: translated, by chance, ", environment.VIP(env.service, f)))
			}
			Expect(suite.Must(env.Agent.Get(ctx, "/debug/dump"))).To(ContainSubstring("translated at connect(), scope pods: attached to "))
			Expect(env.Agent.Stop()).To(Succeed())
			for reason, args := range map[string][]string{
				"NoCgroup2":    {"--cgroup-root=/proc"},
				"NoPodsCgroup": {"--cgroup-root=" + env.Options.CgroupRoot + "/host"},
			} {
				env.StartAgent(ctx, args...)
				metrics := suite.Must(env.Agent.Metrics(ctx))
				Eventually(func() float64 {
					metrics = suite.Must(env.Agent.Metrics(ctx))
					n, _ := metrics.Value("clusterip_proxyagent_socketlb_state", "reason", reason)
					return n
				}).WithTimeout(environment.Soon).Should(BeEquivalentTo(1))
				env.Served(env.service)
				Expect(env.taken(ctx)).To(BeZero())
				Expect(suite.Must(env.Agent.Get(ctx, "/debug/dump"))).To(ContainSubstring("No connections are translated at connect(), although scope pods is configured"))
				Expect(env.Agent.Stop()).To(Succeed())
			}
		})
	}
})
