//go:build linux

// Package badinput_test feeds the node agent what it should not be given: objects as odd as the API server lets them be, and odder
// ones from a time before it validated; Services far too large; configurations with mistakes; a machine on which something is missing.
//
// What it is held to: nothing but the bad object suffers from it, no character of it gets into a rule, and mistakes of an admin are named,
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

	"github.com/clusterip-operator/clusterip-operator/test/e2e/internal/ruleset"
	"github.com/clusterip-operator/clusterip-operator/test/e2e/internal/stage"
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

// world is a Stage with an agent and one Service that is as it should be.
type world struct {
	*stage.Stage
	good *corev1.Service
	// moves counts how often the good one has changed its endpoints.
	moves int
	// others are the rules that are not the agent's.
	others ruleset.Snapshot
}

func newWorld(ctx context.Context, mode string) *world {
	GinkgoHelper()
	w := &world{Stage: stage.Open(ctx, cp, mode)}
	w.StartAgent(ctx)
	w.good = w.Serve(ctx, "good", []stage.Endpoint{{Of: w.Pod2}}, stage.BothProtocols(), framework.WithType(corev1.ServiceTypeNodePort))
	w.Served(w.good)
	w.others = w.Rules(ctx).Without(ruleset.Agent)
	return w
}

// unharmed expects that the agent still programs what changes, that no restore failed, and that nothing got out of the agent's own chains.
func (w *world) unharmed(ctx context.Context) {
	GinkgoHelper()
	w.moves++
	e := stage.Endpoint{Of: []*network.Namespace{w.Pod2, w.RemotePod}[w.moves%2], Extra: 1 + w.moves%30}
	w.Endpoints(ctx, w.good, e)
	for _, f := range network.Families {
		Eventually(func() string {
			return w.Pod1.Dial(network.Probe{To: stage.VIP(w.good, f)}).Endpoint.Addr().String()
		}).WithTimeout(stage.Soon).Should(Equal(e.Addr(f).String()))
	}
	Expect(w.Metric(ctx, "sync_proxy_rules_iptables_restore_failures_total")).To(BeZero())
	Expect(w.others.Diff(w.Rules(ctx).Without(ruleset.Agent))).To(BeEmpty())
	Expect(w.Agent.Healthy(ctx, "/healthz")).To(Succeed())
}

// each runs specs in both variants, each on a world of its own that they share.
func each(what string, specs func(w func() *world)) bool {
	for _, mode := range stage.Modes {
		Describe(what+", "+mode, stage.LabelsOf(mode), Ordered, ContinueOnFailure, func() {
			var w *world
			BeforeAll(func(ctx SpecContext) { w = newWorld(ctx, mode) })
			AfterEach(func(ctx SpecContext) { w.unharmed(ctx) })
			specs(func() *world { return w })
		})
	}
	return true
}

// portOf is another port of the same address.
func portOf(to netip.AddrPort, port int32) netip.AddrPort {
	return netip.AddrPortFrom(to.Addr(), uint16(port)) //nolint:gosec // a port
}
