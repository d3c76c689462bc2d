//go:build linux

// Package robustness_test proves that nothing which happens to the node agent, its rules or the API server costs a
// connection without need, and that the agent repairs all damage by itself.
//
// Everything runs in both variants of iptables. Where traffic is said to lose nothing, it comes from a pod, from the node and from
// outside, over both families, as new connections, as connections that stay and as UDP flows.
//
// Start with restart_test.go; each file has one kind of fault.
package robustness_test

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	"github.com/clusterip-operator/clusterip-operator/test/e2e/internal/environment"
	"github.com/clusterip-operator/clusterip-operator/test/e2e/internal/faults"
	"github.com/clusterip-operator/clusterip-operator/test/e2e/internal/ruleset"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/network"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
)

func TestRobustness(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("network namespaces need root")
	}
	RegisterFailHandler(Fail)
	RunSpecs(t, "robustness of the node agent")
}

var cp *framework.ControlPlane

var _ = BeforeSuite(func(ctx SpecContext) { cp = suite.ControlPlane(ctx, framework.Options{}) })

// fixture is an Environment with an agent, Services that are in use, and rules of others.
type fixture struct {
	*environment.Environment
	programs *faults.Programs
	// busy has endpoints that change; any change that leaves it served is allowed.
	busy *corev1.Service
	// calls is served over TCP and UDP by endpoints that stay.
	calls *corev1.Service
	// foreign are the rules that others wrote before the agent started.
	foreign ruleset.Snapshot
}

// newFixture starts an agent with faults.Programs in its PATH.
func newFixture(ctx context.Context, cluster *framework.ControlPlane, mode string) *fixture {
	GinkgoHelper()
	env := &fixture{Environment: environment.Open(ctx, cluster, mode)}
	var err error
	env.programs, err = faults.NewPrograms(GinkgoT().TempDir())
	Expect(err).NotTo(HaveOccurred())
	env.Options.Env = append(env.Options.Env, "PATH="+env.programs.Path())
	env.plantForeign(ctx)
	env.busy = env.Serve(ctx, "busy", env.servers(), framework.WithType(corev1.ServiceTypeNodePort), named)
	env.calls = env.Serve(ctx, "calls", env.servers(), environment.BothProtocols())
	for i := range 8 {
		env.Serve(ctx, fmt.Sprintf("other-%d", i), env.servers()[:i%4])
	}
	env.StartAgent(ctx)
	env.Served(env.busy)
	return env
}

// named gives the port its name from the start, so that others can come later: a port that is renamed has no endpoints until
// EndpointSlices know the new name, and refuses meanwhile as it must.
func named(s *corev1.Service) { s.Spec.Ports[0].Name = "main" }

func (env *fixture) servers() []environment.Endpoint {
	return []environment.Endpoint{{Of: env.Pod1}, {Of: env.Pod2}, {Of: env.RemotePod}}
}

// families tell the programs of iptables apart, and those of nothing else.
var families = []string{"", "6"}

// program names one of iptables' programs of the variant under test.
func (env *fixture) program(family, tail string) string {
	return "ip" + family + "tables-" + env.Mode + tail
}

// edit applies lines to a table of one family by hand.
func (env *fixture) edit(ctx context.Context, family, table string, lines ...string) {
	GinkgoHelper()
	text := "*" + table + "\n" + strings.Join(lines, "\n") + "\nCOMMIT\n"
	env.Feed(ctx, text, env.program(family, "-restore"), "--noflush", "-w", "20")
}

// ours are the agent's own rules.
func (env *fixture) ours(ctx context.Context) ruleset.Snapshot {
	GinkgoHelper()
	return env.Rules(ctx).Of(ruleset.Agent)
}

// lines returns what iptables-save prints of a table of one family.
func (env *fixture) lines(ctx context.Context, family, table string) []string {
	GinkgoHelper()
	return strings.Split(env.Run(ctx, env.program(family, "-save"), "-t", table), "\n")
}

// chains returns the agent's chains in a table of one family.
func (env *fixture) chains(ctx context.Context, family, table string) []string {
	GinkgoHelper()
	var chains []string
	for _, line := range env.lines(ctx, family, table) {
		if name, is := strings.CutPrefix(line, ":"); is && ruleset.Agent(name) {
			chains = append(chains, strings.Fields(name)[0])
		}
	}
	return chains
}

// sets returns the names of the agent's sets.
func (env *fixture) sets(ctx context.Context) []string {
	GinkgoHelper()
	var sets []string
	for name := range strings.Lines(env.Run(ctx, "ipset", "list", "-name")) {
		if name = strings.TrimSpace(name); ruleset.Agent(name) {
			sets = append(sets, name)
		}
	}
	return sets
}

// reset brings back what specs may change, and waits for it.
func (env *fixture) reset(ctx context.Context) {
	GinkgoHelper()
	Expect(env.programs.Open()).To(Succeed())
	if !env.Agent.Running() { // a spec before this one failed
		Expect(env.Agent.Start(ctx)).To(Succeed())
	}
	Expect(env.programs.NoMore()).To(Succeed())
	env.Endpoints(ctx, env.busy, environment.Endpoint{Of: env.Pod2, Extra: 30})
	env.answersFrom(env.Pod2, 30) // it keeps up, whatever it had to wait for
	env.Endpoints(ctx, env.busy, env.servers()...)
	for _, f := range network.Families {
		Eventually(func() string {
			return env.Pod1.Dial(network.Probe{To: environment.VIP(env.busy, f)}).Endpoint.Addr().String()
		}).
			WithTimeout(environment.Soon).ShouldNot(Equal(env.Pod2.Extra(f, 30).String()))
	}
}

// stableRules waits until the agent's rules do not change any more, and returns them.
func (env *fixture) stableRules(ctx context.Context) (rules ruleset.Snapshot) {
	GinkgoHelper()
	Eventually(func() string {
		rules = env.ours(ctx)
		time.Sleep(400 * time.Millisecond)
		return rules.Diff(env.ours(ctx))
	}).WithTimeout(environment.Soon).Should(BeEmpty())
	return rules
}

// both runs specs in both variants, each in an Environment of its own. labels are those of both.
func both(what string, specs func(env *fixture), labels ...string) bool {
	for _, mode := range environment.Modes {
		Describe(what+", "+mode, environment.LabelsOf(mode), Label(labels...), Ordered, ContinueOnFailure, func() {
			env := new(fixture)
			BeforeAll(func(ctx SpecContext) { *env = *newFixture(ctx, cp, mode) })
			BeforeEach(func(ctx SpecContext) { env.reset(ctx) })
			AfterEach(func(ctx SpecContext) {
				Expect(env.foreign.Diff(env.Rules(ctx).Without(ruleset.Agent))).To(BeEmpty(), "rules of others were changed")
			})
			specs(env)
		})
	}
	return true
}

func port80(address string) netip.AddrPort {
	return netip.AddrPortFrom(netip.MustParseAddr(address), 80)
}
