//go:build linux

// Package badinput_test gives the node agent invalid input: the strangest objects that the API server admits, and stranger
// ones stored before it validated; very large Services; configurations with mistakes; a machine that lacks something.
//
// What has to hold: only the bad object is affected, none of its text gets into a rule, and the mistakes of an admin are reported,
// all of them at once.
//
// Start with objects_test.go.
package badinput_test

import (
	"context"
	"net/netip"
	"os"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	"github.com/clusterip-operator/clusterip-operator/test/e2e/internal/environment"
	"github.com/clusterip-operator/clusterip-operator/test/e2e/internal/ruleset"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/network"
	"github.com/clusterip-operator/clusterip-operator/test/framework/suite"
)

func TestBadInput(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("network namespaces need root")
	}
	RegisterFailHandler(Fail)
	RunSpecs(t, "bad input to the node agent", Label("all"))
}

var cp *framework.ControlPlane

var _ = BeforeSuite(func(ctx SpecContext) { cp = suite.ControlPlane(ctx, framework.Options{}) })

// fixture is an Environment with an agent and one Service without mistakes.
type fixture struct {
	*environment.Environment
	good *corev1.Service
	// moves counts how often the good one has changed its endpoints.
	moves int
	// others are the rules that are not the agent's.
	others ruleset.Snapshot
}

func newFixture(ctx context.Context, mode string) *fixture {
	GinkgoHelper()
	env := &fixture{Environment: environment.Open(ctx, cp, mode)}
	env.StartAgent(ctx)
	env.good = env.Serve(ctx, "good", []environment.Endpoint{{Of: env.Pod2}}, environment.BothProtocols(), framework.WithType(corev1.ServiceTypeNodePort))
	env.Served(env.good)
	env.others = env.Rules(ctx).Without(ruleset.Agent)
	return env
}

// unharmed expects that the agent still programs what changes, that no restore failed, and that nothing got out of the agent's own chains.
func (env *fixture) unharmed(ctx context.Context) {
	GinkgoHelper()
	env.moves++
	e := environment.Endpoint{Of: []*network.Namespace{env.Pod2, env.RemotePod}[env.moves%2], Extra: 1 + env.moves%30}
	env.Endpoints(ctx, env.good, e)
	for _, f := range network.Families {
		Eventually(func() string {
			return env.Pod1.Dial(network.Probe{To: environment.VIP(env.good, f)}).Endpoint.Addr().String()
		}).WithTimeout(environment.Soon).Should(Equal(e.Addr(f).String()))
	}
	Expect(env.Metric(ctx, "sync_proxy_rules_iptables_restore_failures_total")).To(BeZero())
	Expect(env.others.Diff(env.Rules(ctx).Without(ruleset.Agent))).To(BeEmpty())
	Expect(env.Agent.Healthy(ctx, "/healthz")).To(Succeed())
}

// each runs specs in both variants, each in an Environment of its own.
func each(what string, specs func(env *fixture)) bool {
	for _, mode := range environment.Modes {
		Describe(what+", "+mode, environment.LabelsOf(mode), Ordered, ContinueOnFailure, func() {
			env := new(fixture)
			BeforeAll(func(ctx SpecContext) { *env = *newFixture(ctx, mode) })
			AfterEach(func(ctx SpecContext) { env.unharmed(ctx) })
			specs(env)
		})
	}
	return true
}

// portOf is another port of the same address.
func portOf(to netip.AddrPort, port int32) netip.AddrPort {
	return netip.AddrPortFrom(to.Addr(), uint16(port)) //nolint:gosec // a port
}
