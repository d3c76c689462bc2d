// Package robustness_test proves that nothing which happens to the node agent, its rules or the API
// server costs a connection without need, and that the agent repairs all damage by itself.
//
// Everything runs in both variants of iptables. Traffic that loses nothing comes from a pod, from
// the node and from outside, over both families: new connections, lasting ones, UDP flows.
//
// Start with restart_test.go; each file has one kind of fault.
package robustness_test

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
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
)

func TestRobustness(t *testing.T) {
	environment.Prepare(t)
	RunSpecs(t, "robustness of the node agent")
}

// fixture is an Environment with an agent, used Services, and rules of other programs.
type fixture struct {
	*environment.Environment
	programs *faults.Programs
	// busy has endpoints that change; any change that leaves it served is allowed.
	busy *corev1.Service
	// calls is served over TCP and UDP by endpoints that stay.
	calls *corev1.Service
	// foreign are the rules that other programs wrote before the agent started.
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
	env.busy = env.Serve(ctx, "busy", env.Servers(), framework.WithType(corev1.ServiceTypeNodePort), named)
	env.calls = env.Serve(ctx, "calls", env.Servers(), environment.BothProtocols)
	for i := range 8 {
		env.Serve(ctx, fmt.Sprintf("other-%d", i), env.Servers()[:i%4])
	}
	env.StartAgent(ctx)
	env.Served(env.busy)
	return env
}

// named gives the port its name at once, so that other ports can come later: a renamed port has no
// endpoints until EndpointSlices know the name, and refuses meanwhile as it must.
func named(s *corev1.Service) { s.Spec.Ports[0].Name = "main" }

// sets returns the names of the agent's sets.
func (env *fixture) sets(ctx context.Context) (sets []string) {
	GinkgoHelper()
	for line := range strings.SplitSeq(env.Ours(ctx)["ipset"], "\n") {
		if definition, is := strings.CutPrefix(line, "create "); is {
			sets = append(sets, strings.Fields(definition)[0])
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
	env.move(ctx, env.Pod2, 30) // it keeps up, whatever it had to wait for
	env.answersFrom(env.Pod2, 30)
	env.Endpoints(ctx, env.busy, env.Servers()...)
	for _, f := range network.Families {
		Eventually(func() netip.Addr {
			return env.Pod1.Dial(network.Probe{To: environment.VIP(env.busy, f)}).Endpoint.Addr()
		}).WithTimeout(environment.Soon).ShouldNot(Equal(env.Pod2.Extra(f, 30)))
	}
}

// move makes an address the busy Service's only endpoint; answersFrom expects that, before long.
func (env *fixture) move(ctx context.Context, to *network.Namespace, extra int) {
	GinkgoHelper()
	env.Endpoints(ctx, env.busy, environment.Endpoint{Of: to, Extra: extra})
}

func (env *fixture) answersFrom(pod *network.Namespace, extra int) {
	GinkgoHelper()
	for _, f := range network.Families {
		environment.Answers(env.Pod1, environment.VIP(env.busy, f), environment.Endpoint{Of: pod, Extra: extra})
	}
}

// stableRules waits until the agent's rules do not change any more, and returns them.
func (env *fixture) stableRules(ctx context.Context) (rules ruleset.Snapshot) {
	GinkgoHelper()
	still := 400 * time.Millisecond
	if env.Mode == environment.Native {
		still = 2 * time.Second // what packets under way may look for leaves a second later
	}
	Eventually(func() string {
		rules = env.Ours(ctx)
		time.Sleep(still)
		return rules.Diff(env.Ours(ctx))
	}).WithTimeout(environment.Soon).Should(BeEmpty())
	return rules
}

// both runs specs in both variants, each in its own Environment; every in all modes, with labels.
func both(what string, specs func(env *fixture), labels ...string) bool {
	return in(environment.Variants, what, specs, labels)
}

func every(what string, specs func(env *fixture), labels ...string) bool {
	return in(environment.Modes, what, specs, labels)
}

// everywhere runs them in mode ipvs too.
func everywhere(what string, specs func(env *fixture)) bool {
	return every(what, specs) && describe(environment.Balanced, what, Label(environment.Balanced), specs)
}

func in(modes []string, what string, specs func(env *fixture), labels []string) bool {
	for _, mode := range modes {
		describe(mode, what, slices.Concat(environment.LabelsOf(modes, mode, what), Label(labels...)), specs)
	}
	return true
}

func describe(mode, what string, labels Labels, specs func(env *fixture)) bool {
	return Describe(what+", "+mode, labels, Ordered, ContinueOnFailure, func() {
		env := new(fixture)
		BeforeAll(func(ctx SpecContext) { *env = *newFixture(ctx, environment.Cluster, mode) })
		BeforeEach(func(ctx SpecContext) { env.reset(ctx) })
		AfterEach(func(ctx SpecContext) {
			Expect(env.foreign.Diff(env.Rules(ctx).Without(ruleset.Agent))).To(BeEmpty(), "rules of others were changed")
		})
		specs(env)
	})
}

func port80(address string) netip.AddrPort {
	return netip.AddrPortFrom(netip.MustParseAddr(address), 80)
}

// foreignRules are those of a network plugin, an admin, and a program whose names look like ours.
const foreignRules = `*raw
-A PREROUTING -p tcp -m tcp --dport 9 -j ACCEPT
COMMIT
*mangle
:FOREIGN-MARK - [0:0]
-A PREROUTING -j FOREIGN-MARK
-A FOREIGN-MARK -p tcp -m tcp --dport 9 -j MARK --set-xmark 0x1/0xffffffff
COMMIT
*nat
:PARTY - [0:0]
:XCIPA-SERVICES - [0:0]
:pa-services - [0:0]
-A PREROUTING -m comment --comment "not ours -j CIPA-SERVICES" -j PARTY
-A PREROUTING -p tcp -m tcp --dport 9 -m comment --comment "counts -j CIPA-SERVICES"
-A OUTPUT -p tcp -m tcp --dport 9 -j XCIPA-SERVICES
-A POSTROUTING -p tcp -m tcp --dport 9 -j MASQUERADE
-A PARTY -p tcp -m tcp --dport 9 -j pa-services
-A pa-services -m comment --comment "CIPA-SERVICES" -j RETURN
COMMIT
*filter
:FOREIGN - [0:0]
-A INPUT -p tcp -m tcp --dport 9 -m comment --comment "CIPA-INPUT" -j DROP
-A INPUT -m comment --comment "\"-A INPUT -j CIPA-INPUT\"" -j FOREIGN
-A FORWARD -m set --match-set %s src -j FOREIGN
-A FOREIGN -m comment --comment "goes nowhere -g CIPA-NEW" -j RETURN
COMMIT
`

// plantForeign writes rules of other programs, in both variants, and sets.
func (env *fixture) plantForeign(ctx context.Context) {
	GinkgoHelper()
	for family, kind := range map[string]string{"": "inet", "6": "inet6"} {
		set := "XCIPA-" + kind
		member := map[string]string{"": "198.51.100.66", "6": "2001:db8:51::66"}[family]
		env.Feed(ctx, fmt.Sprintf("create %s hash:ip family %s\nadd %[1]s %[3]s\n", set, kind, member), "ipset", "restore")
		for _, mode := range environment.Variants {
			env.Restore(ctx, family, mode, fmt.Sprintf(foreignRules, set))
		}
	}
	parts := 5 // all programs but nft show rules
	if env.Mode == environment.Balanced {
		env.PlantVirtualServers()
		parts++
	}
	env.foreign = env.Rules(ctx)
	Expect(env.foreign).To(HaveLen(parts))
	Expect(env.foreign.Of(ruleset.Agent)).To(BeEmpty())
	Expect(strings.Count(env.foreign["iptables-nft-save"], "\n-A ")).To(Equal(strings.Count(foreignRules, "\n-A ")))
}
