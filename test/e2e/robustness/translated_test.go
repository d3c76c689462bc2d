package robustness_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	"github.com/clusterip-operator/clusterip-operator/test/e2e/internal/environment"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/network"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
)

// translating is an Environment whose agent translates connections at connect().
type translating struct {
	*environment.Environment
	service *corev1.Service
	// client is one whose connections are translated.
	client *network.Namespace
}

// translatingModes are those of the agent that need no IPVS, less the legacy variant.
var translatingModes = []string{environment.Native, "nft"}

func newTranslating(ctx context.Context, mode, scope string) *translating {
	GinkgoHelper()
	env := &translating{Environment: environment.Open(ctx, environment.Cluster, mode)}
	env.Options.SocketLB, env.client = scope, env.Pod1
	if scope == "host" {
		env.client = env.Node
	}
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
	n, _ := suite.Must(env.Agent.Metrics(ctx)).Value("clusterip_proxyagent_socketlb_connections_total", "service", env.service.Name)
	return n
}

// state waits until the agent says whether it translates, and why not.
func (env *translating) state(ctx context.Context, reason string) {
	GinkgoHelper()
	Eventually(func() float64 {
		n, _ := suite.Must(env.Agent.Metrics(ctx)).Value("clusterip_proxyagent_socketlb_state", "reason", reason)
		return n
	}).WithTimeout(environment.Soon).Should(BeEquivalentTo(1), "that the reason is "+reason)
}

// awaitTaken makes connections until the agent has counted more, of both families.
func (env *translating) awaitTaken(ctx context.Context) {
	GinkgoHelper()
	for _, f := range network.Families {
		before := env.taken(ctx)
		Eventually(func() float64 {
			Expect(env.client.Dial(network.Probe{To: environment.VIP(env.service, f)})).To(environment.End(network.Connected))
			return env.taken(ctx)
		}).WithTimeout(environment.Soon).Should(BeNumerically(">", before))
	}
}

// traffic are connections from a pod, as many as some clients can make.
func (env *translating) traffic() *environment.Traffic {
	GinkgoHelper()
	traffic := environment.NewTraffic()
	for _, f := range network.Families {
		for i := range 8 {
			traffic.Hammer(fmt.Sprintf("client %d over %s", i, f), env.client, environment.VIP(env.service, f))
		}
	}
	return traffic
}

// load starts traffic. What it returns ends it, and wants none to have been lost; how many
// connections there were is reported.
func (env *translating) load() (lostNothing func()) {
	GinkgoHelper()
	traffic, started := env.traffic(), time.Now()
	return func() {
		GinkgoHelper()
		traffic.LostNothing()
		tried, _ := traffic.Count()
		AddReportEntry(fmt.Sprintf("%d connections, %.0f a second", tried, float64(tried)/time.Since(started).Seconds()))
	}
}

// update starts another agent, which waits for the one that runs, has that end, and waits until the
// other is ready.
func (env *translating) update(ctx context.Context) {
	GinkgoHelper()
	before := env.Agent
	env.Options.NoWait = true
	env.StartAgent(ctx)
	env.Options.NoWait = false
	Expect(before.Stop()).To(Succeed())
	Expect(env.Agent.WaitReady(ctx)).To(Succeed())
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
	for _, mode := range translatingModes {
		It("loses none when it is killed while it writes, leaves them to rules, and takes them up again, "+mode,
			environment.LabelsOf(translatingModes, mode, "translated"), func(ctx SpecContext) {
				env := newTranslating(ctx, mode, "pods")
				lostNothing, still := env.load(), env.change(ctx)
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
				lostNothing()
			})

		It("loses none when that is switched on and off, and when another agent takes its place, "+mode,
			environment.LabelsOf(translatingModes, mode, "switched"), func(ctx SpecContext) {
				env := newTranslating(ctx, mode, "pods")
				lostNothing, still := env.load(), env.change(ctx)
				for range 2 {
					Expect(env.Agent.Stop()).To(Succeed())
					env.StartAgent(ctx, "--socket-lb-scope=off")
					env.Served(env.service)
					Expect(env.taken(ctx)).To(BeZero())
					Expect(env.Agent.Stop()).To(Succeed())
					env.StartAgent(ctx)
					env.awaitTaken(ctx)
					env.update(ctx)
					env.awaitTaken(ctx)
				}
				still()
				lostNothing()
			})

		It("says what it does, and serves by rules where it may not, "+mode, environment.LabelsOf(translatingModes, mode, "said"), func(ctx SpecContext) {
			env := newTranslating(ctx, mode, "pods")
			told := suite.Must(env.Agent.Get(ctx, "/debug/dump?of="+env.Name+"/"+env.service.Name))
			for _, f := range network.Families {
				Expect(told).To(ContainSubstring("%s: translated, by chance, ", environment.VIP(env.service, f)))
			}
			Expect(suite.Must(env.Agent.Get(ctx, "/debug/dump"))).To(ContainSubstring("translated at connect(), scope pods: attached to "))
			Expect(env.Agent.Stop()).To(Succeed())
			for _, c := range []struct {
				reason string
				args   []string
				below  string // what starts the agent
			}{
				{reason: "NoCgroup2", args: []string{"--cgroup-root=/proc"}},
				{reason: "NoPodsCgroup", args: []string{"--cgroup-root=" + env.Options.CgroupRoot + "/host"}},
				{reason: "NotPermitted", below: "setpriv --bounding-set=-bpf,-sys_admin --inh-caps=-bpf,-sys_admin"},
				{reason: "KernelTooOld", below: "setarch --uname-2.6"}, // which has the kernel say that it is Linux 2.6
			} {
				env.Options.Program = started(c.below)
				env.StartAgent(ctx, c.args...)
				env.state(ctx, c.reason)
				env.Served(env.service)
				Expect(env.taken(ctx)).To(BeZero())
				Expect(suite.Must(env.Agent.Get(ctx, "/debug/dump"))).To(ContainSubstring("No connections are translated at connect(), although scope pods is configured"))
				Expect(env.Agent.Stop()).To(Succeed())
			}
		})
	}
})

// started is a program that has another one start the agent.
func started(below string) string {
	GinkgoHelper()
	path := filepath.Join(GinkgoT().TempDir(), "proxyagent")
	script := fmt.Sprintf("#!/bin/sh\nexec %s %s \"$@\"\n", below, suite.Must(framework.ProxyAgentProgram()))
	Expect(os.WriteFile(path, []byte(script), 0o755)).To(Succeed()) //nolint:gosec // it is a program
	return path
}
