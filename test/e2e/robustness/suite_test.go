//go:build linux

// Package robustness_test holds the node agent to its promise that nothing which happens to it, to its rules or to the API server costs a
// connection that needs not be lost, and that whatever was broken is mended without anybody's help.
//
// Everything runs in both variants of iptables. Where traffic is said to lose nothing, it comes from a pod, from the node and from
// outside, over both families, as new connections, as connections that stay and as UDP flows.
//
// Start with restart_test.go; each file is one kind of trouble.
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

	"github.com/clusterip-operator/clusterip-operator/test/e2e/internal/faults"
	"github.com/clusterip-operator/clusterip-operator/test/e2e/internal/ruleset"
	"github.com/clusterip-operator/clusterip-operator/test/e2e/internal/stage"
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

// world is a Stage with an agent that has work, among rules of others.
type world struct {
	*stage.Stage
	programs *faults.Programs
	// busy has endpoints that change; everything may happen to it that leaves it served.
	busy *corev1.Service
	// calls is served over TCP and UDP by endpoints that stay.
	calls *corev1.Service
	// foreign is what others had written before the agent came.
	foreign ruleset.Snapshot
}

// newWorld makes one on a control plane, with an agent that finds faults.Programs in its PATH.
func newWorld(ctx context.Context, cluster *framework.ControlPlane, mode string) *world {
	GinkgoHelper()
	w := &world{Stage: stage.Open(ctx, cluster, mode)}
	var err error
	w.programs, err = faults.NewPrograms(GinkgoT().TempDir())
	Expect(err).NotTo(HaveOccurred())
	w.Options.Env = append(w.Options.Env, "PATH="+w.programs.Path())
	w.plantForeign(ctx)
	w.busy = w.Serve(ctx, "busy", w.servers(), framework.WithType(corev1.ServiceTypeNodePort), named)
	w.calls = w.Serve(ctx, "calls", w.servers(), stage.BothProtocols())
	for i := range 8 {
		w.Serve(ctx, fmt.Sprintf("other-%d", i), w.servers()[:i%4])
	}
	w.StartAgent(ctx)
	w.Served(w.busy)
	return w
}

// named gives the port its name from the start, so that others can come later: a port that is renamed has no endpoints until
// EndpointSlices know the new name, and refuses meanwhile as it must.
func named(s *corev1.Service) { s.Spec.Ports[0].Name = "main" }

func (w *world) servers() []stage.Endpoint {
	return []stage.Endpoint{{Of: w.Pod1}, {Of: w.Pod2}, {Of: w.RemotePod}}
}

// families tell the programs of iptables apart, and those of nothing else.
var families = []string{"", "6"}

// program names one of iptables' programs of the world's variant.
func (w *world) program(family, tail string) string {
	return "ip" + family + "tables-" + w.Mode + tail
}

// edit applies lines to a table of one family by hand.
func (w *world) edit(ctx context.Context, family, table string, lines ...string) {
	GinkgoHelper()
	text := "*" + table + "\n" + strings.Join(lines, "\n") + "\nCOMMIT\n"
	w.Feed(ctx, text, w.program(family, "-restore"), "--noflush", "-w", "20")
}

// ours are the agent's own rules.
func (w *world) ours(ctx context.Context) ruleset.Snapshot {
	GinkgoHelper()
	return w.Rules(ctx).Of(ruleset.Agent)
}

// lines returns what iptables-save prints of a table of one family.
func (w *world) lines(ctx context.Context, family, table string) []string {
	GinkgoHelper()
	return strings.Split(w.Run(ctx, w.program(family, "-save"), "-t", table), "\n")
}

// chains returns the agent's chains in a table of one family.
func (w *world) chains(ctx context.Context, family, table string) []string {
	GinkgoHelper()
	var chains []string
	for _, line := range w.lines(ctx, family, table) {
		if name, is := strings.CutPrefix(line, ":"); is && ruleset.Agent(name) {
			chains = append(chains, strings.Fields(name)[0])
		}
	}
	return chains
}

// sets returns the names of the agent's sets.
func (w *world) sets(ctx context.Context) []string {
	GinkgoHelper()
	var sets []string
	for name := range strings.Lines(w.Run(ctx, "ipset", "list", "-name")) {
		if name = strings.TrimSpace(name); ruleset.Agent(name) {
			sets = append(sets, name)
		}
	}
	return sets
}

// reset brings back what specs may change, and waits for it.
func (w *world) reset(ctx context.Context) {
	GinkgoHelper()
	Expect(w.programs.Open()).To(Succeed())
	if !w.Agent.Running() { // a spec before this one failed
		Expect(w.Agent.Start(ctx)).To(Succeed())
	}
	Expect(w.programs.NoMore()).To(Succeed())
	w.Endpoints(ctx, w.busy, stage.Endpoint{Of: w.Pod2, Extra: 30})
	w.answersFrom(w.Pod2, 30) // it keeps up, whatever it had to wait for
	w.Endpoints(ctx, w.busy, w.servers()...)
	for _, f := range network.Families {
		Eventually(func() string { return w.Pod1.Dial(network.Probe{To: stage.VIP(w.busy, f)}).Endpoint.Addr().String() }).
			WithTimeout(stage.Soon).ShouldNot(Equal(w.Pod2.Extra(f, 30).String()))
	}
}

// settled waits until the agent's rules do not change any more, and returns them.
func (w *world) settled(ctx context.Context) (rules ruleset.Snapshot) {
	GinkgoHelper()
	Eventually(func() string {
		rules = w.ours(ctx)
		time.Sleep(400 * time.Millisecond)
		return rules.Diff(w.ours(ctx))
	}).WithTimeout(stage.Soon).Should(BeEmpty())
	return rules
}

// both runs specs in both variants, each on a world of its own that they share. labels are those of both.
func both(what string, specs func(w func() *world), labels ...string) bool {
	for _, mode := range stage.Modes {
		Describe(what+", "+mode, stage.LabelsOf(mode), Label(labels...), Ordered, ContinueOnFailure, func() {
			var w *world
			BeforeAll(func(ctx SpecContext) { w = newWorld(ctx, cp, mode) })
			AfterEach(func(ctx SpecContext) {
				Expect(w.foreign.Diff(w.Rules(ctx).Without(ruleset.Agent))).To(BeEmpty(), "rules of others were changed")
			})
			specs(func() *world { return w })
		})
	}
	return true
}

func port80(address string) netip.AddrPort {
	return netip.AddrPortFrom(netip.MustParseAddr(address), 80)
}
