// Package badinput_test gives the node agent invalid input: the strangest objects that the API
// server admits, stranger ones from before it validated, huge Services, a machine that lacks
// something.
//
// Only the bad object may be affected, and none of its text may get into a rule. Each field is
// tested in proxyagent/watch, mistakes of flags and files in cmd/proxyagent and proxyagent/config.
//
// Start with objects_test.go.
package badinput_test

import (
	"context"
	"encoding/json"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	"github.com/clusterip-operator/clusterip-operator/test/e2e/internal/environment"
	"github.com/clusterip-operator/clusterip-operator/test/e2e/internal/ruleset"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/network"
	"github.com/clusterip-operator/clusterip-operator/test/framework/storage"
)

func TestBadInput(t *testing.T) {
	environment.Prepare(t)
	RunSpecs(t, "bad input to the node agent", Label("all"))
}

// fixture is an Environment with an agent and one Service without mistakes.
type fixture struct {
	*environment.Environment
	good *corev1.Service
	// moves counts how often the good one has changed its endpoints.
	moves int
	// others are the rules that are not the agent's.
	others ruleset.Snapshot
}

// each runs specs in all modes, each in an Environment of its own.
func each(what string, specs func(env *fixture)) bool {
	for _, mode := range environment.Modes {
		Describe(what+", "+mode, environment.LabelsOf(environment.Modes, mode, what), Ordered, ContinueOnFailure, func() {
			env := new(fixture)
			BeforeAll(func(ctx SpecContext) {
				env.Environment = environment.Open(ctx, environment.Cluster, mode)
				env.StartAgent(ctx)
				env.good = env.serve(ctx, "good", environment.BothProtocols, framework.WithType(corev1.ServiceTypeNodePort))
				env.Served(env.good)
				env.others = env.Rules(ctx).Without(ruleset.Agent)
			})
			AfterEach(func(ctx SpecContext) { env.unharmed(ctx) })
			specs(env)
		})
	}
	return true
}

// serve creates a Service with an endpoint.
func (env *fixture) serve(ctx context.Context, name string, options ...framework.ServiceOption) *corev1.Service {
	GinkgoHelper()
	return env.Serve(ctx, name, []environment.Endpoint{{Of: env.Pod2}}, options...)
}

// unharmed expects that changes are programmed, no restore failed, and foreign rules are as before.
func (env *fixture) unharmed(ctx context.Context) {
	GinkgoHelper()
	env.moves++
	e := environment.Endpoint{Of: []*network.Namespace{env.Pod2, env.RemotePod}[env.moves%2], Extra: 1 + env.moves%30}
	env.Endpoints(ctx, env.good, e)
	for _, f := range network.Families {
		environment.Answers(env.Pod1, environment.VIP(env.good, f), e)
	}
	Expect(env.Metric(ctx, "sync_proxy_rules_iptables_restore_failures_total")).To(BeZero())
	Expect(env.others.Diff(env.Rules(ctx).Without(ruleset.Agent))).To(BeEmpty())
	Expect(env.Agent.Healthy(ctx, "/healthz")).To(Succeed())
}

// store puts an object into etcd as it is: clusters have it from an API server that did not
// validate yet, or from one with a bug. The API server serves what it finds there.
func (env *fixture) store(ctx context.Context, key string, object any) {
	GinkgoHelper()
	text, err := json.Marshal(object)
	Expect(err).NotTo(HaveOccurred())
	etcd := storage.Open(env.Cluster.Etcd)
	etcd.Put(ctx, storage.Registry+key, text)
	DeferCleanup(func(ctx SpecContext) { etcd.Remove(ctx, storage.Registry+key) })
}
