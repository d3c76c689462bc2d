// Package hostile_test proves that no Service, no neighbour on the node and no tool of the node
// takes the well-behaved Service beside it down. Each row of its table is one hostile party. While
// the party is at work, in each mode of the agent that runs on this machine:
//
//   - no connection of the well-behaved Services is lost, new or kept, over TCP and over UDP, over
//     IPv4 and over IPv6, from a pod, from the node and from outside;
//   - a change of their endpoints or ports is in the kernel within 100 ms, or as soon as without
//     the party (measure_test.go has how that is told on a machine with other things to do; what
//     was measured is in the report of each spec);
//   - /healthz answers 200 all the time;
//   - the agent's memory stays within 1.3 times that of the same cluster without the party, plus
//     what the party's objects cost.
//
// Start with party_test.go, which has what a party is and how the Services endure it. The parties:
// services_test.go has tenants that use all that the API allows, writers_test.go programs that
// write firewalls beside the agent, newer_test.go a set by a newer nft, conntrack_test.go a full
// table of connections, lock_test.go the lock of iptables that another process holds.
package hostile_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	"github.com/clusterip-operator/clusterip-operator/test/e2e/internal/environment"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
)

func TestHostile(t *testing.T) {
	environment.Prepare(t)
	RunSpecs(t, "a well-behaved Service beside hostile parties", Label("soak")) // it measures times and memory: nothing else may be busy
}

// ordinary is how many Services the cluster has beside those that are looked at.
const ordinary = 100

// warmUp is how many changes the agent makes before its memory is measured: right after the start
// it has given back all that it does not need.
const warmUp = 40

// fixture is an Environment with an agent, an ordinary cluster, and two well-behaved Services.
type fixture struct {
	*environment.Environment
	// steady keeps its endpoints, over TCP and UDP: it must not lose a connection.
	steady *corev1.Service
	// moving changes its endpoints and its second port again and again: each change must be in the
	// kernel soon, and no connection to its first port may be lost.
	moving *corev1.Service
	// moves counts the changes of moving.
	moves int
	// seen is when a client of the API server saw each change of moving.
	seen *sightings
	// calm is the agent without any hostile party, after some changes.
	calm footprint
	// objects counts the bytes of the objects of the party that is at work.
	objects atomic.Int64
}

var _ = each(func(env *fixture) {
	for _, p := range parties(env) {
		p.spec(env)
	}
	waitsForLock(env)
})

// each runs specs in all modes, each mode with one Environment for all of them.
func each(specs func(env *fixture)) bool {
	for _, mode := range environment.Modes {
		Describe("The well-behaved Service in mode "+mode, environment.LabelsOf(environment.Modes, mode, "hostile"), Ordered, ContinueOnFailure, func() {
			env := &fixture{Environment: &environment.Environment{Mode: mode}}
			BeforeAll(func(ctx SpecContext) { env.open(ctx, mode) })
			specs(env)
		})
	}
	return true
}

// open starts an agent in an ordinary cluster. It is built without the race detector, for its
// memory and its pace are measured; changes need not wait for one another.
func (env *fixture) open(ctx context.Context, mode string) {
	GinkgoHelper()
	env.Environment = environment.Open(ctx, environment.Cluster, mode)
	env.Options.Race = false
	GinkgoT().Setenv("GOGC", "100") // as in a pod, whatever hack/test.sh says for the sake of speed
	prompt := map[string]any{"minSyncPeriod": "10ms"}
	env.Options.Config = map[string]any{"iptables": prompt, "nftables": prompt}
	env.steady = env.Serve(ctx, "steady", env.Servers(), framework.WithType(corev1.ServiceTypeNodePort), environment.BothProtocols)
	env.moving = env.Serve(ctx, "moving", env.Servers(), func(s *corev1.Service) {
		environment.BothProtocols(s)
		s.Spec.Ports[1].Port = firstPort
	})
	_, err := framework.CreateServices(ctx, env.Cluster.Client(), ordinary, 8, func(i int) *corev1.Service {
		return env.NewService(fmt.Sprintf("ordinary-%d", i))
	})
	Expect(err).NotTo(HaveOccurred())
	env.StartAgent(ctx)
	env.Served(env.steady, env.moving)
	env.seen = env.watch()
	env.changes(ctx, warmUp)
	env.calm = env.footprint(ctx)
}
