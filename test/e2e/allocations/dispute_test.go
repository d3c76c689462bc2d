//go:build linux

package allocations_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	"github.com/clusterip-operator/clusterip-operator/test/e2e/internal/environment"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/network"
)

// twoPorts gives a Service the ports 80 and 81.
func twoPorts(s *corev1.Service) {
	s.Spec.Ports = []corev1.ServicePort{{Name: "http", Port: 80}, {Name: "more", Port: 81}}
}

var _ = eachAlone("Two Services with one ClusterIP", "", func(env *fixture) {
	var older, younger *corev1.Service

	It("are served as one: the one that the IPAddress names", func(ctx SpecContext) {
		older = env.Serve(ctx, "older", []environment.Endpoint{{Of: env.Pod1}}, twoPorts)
		env.answers(older, env.Pod1)
		env.disputed(ctx, 0)
		aSecond()
		younger = env.competitor(ctx, older, "younger", environment.Endpoint{Of: env.Pod2})
		env.answers(younger, env.Pod2)
		env.end(younger, 81, network.Refused)
		env.disputed(ctx, 2)
		env.expectWarning(ctx, older, "AllocatedToOtherService", "younger")
	})

	It("stay so over a restart of the agent", func(ctx SpecContext) {
		Expect(env.Agent.Kill()).To(Succeed())
		Expect(env.Agent.Start(ctx)).To(Succeed())
		env.answers(younger, env.Pod2)
		env.disputed(ctx, 2)
	})

	It("change places when the IPAddress is moved", func(ctx SpecContext) {
		env.forget(ctx, older)
		env.give(ctx, older)
		env.answers(older, env.Pod1)
		env.end(older, 81, network.Connected)
		env.disputed(ctx, 2)
		env.expectWarning(ctx, younger, "AllocatedToOtherService", "older")
	})

	It("follow the endpoints of the owner only", func(ctx SpecContext) {
		env.Endpoints(ctx, younger, environment.Endpoint{Of: env.Pod1, Extra: 5})
		env.Endpoints(ctx, older, environment.Endpoint{Of: env.RemotePod})
		env.answers(older, env.RemotePod)
		env.Endpoints(ctx, older)
		env.end(older, 80, network.Refused)
		env.Endpoints(ctx, older, environment.Endpoint{Of: env.Pod1})
		env.answers(older, env.Pod1)
	})

	It("are decided by age when no IPAddress decides", func(ctx SpecContext) {
		env.forget(ctx, older)
		env.expectWarning(ctx, younger, "ClaimedByOlderService", "older")
		env.answers(older, env.Pod1)
		env.disputed(ctx, 2)
	})

	It("leave the address to the one that is left", func(ctx SpecContext) {
		env.Delete(ctx, older.Name)
		env.Endpoints(ctx, younger, environment.Endpoint{Of: env.Pod2})
		env.answers(younger, env.Pod2)
		env.end(younger, 81, network.Refused)
		env.disputed(ctx, 0)
	})
})

var _ = each("A Service that claims the ClusterIP of another one as external IP", "", func(env *fixture) {
	It("does not get it", func(ctx SpecContext) {
		owner := env.Serve(ctx, "web-owner", []environment.Endpoint{{Of: env.Pod1}})
		env.answers(owner, env.Pod1)
		claimer := env.Serve(ctx, "claimer", []environment.Endpoint{{Of: env.Pod2}}, twoPorts,
			func(s *corev1.Service) { s.Spec.ExternalIPs = owner.Spec.ClusterIPs })
		env.answers(claimer, env.Pod2)
		env.answers(owner, env.Pod1)
		env.end(owner, 81, network.Refused)
		env.disputed(ctx, 2)
		env.expectWarning(ctx, claimer, "ClusterIPOfOtherService", "web-owner")
	})
})

var _ = each("Without regard to IPAddresses, two Services with one ClusterIP", "ignore", func(env *fixture) {
	It("are decided by age", func(ctx SpecContext) {
		older := env.Serve(ctx, "older", []environment.Endpoint{{Of: env.Pod1}})
		aSecond()
		younger := env.competitor(ctx, older, "younger", environment.Endpoint{Of: env.Pod2})
		env.expectWarning(ctx, younger, "ClaimedByOlderService", "older")
		env.answers(older, env.Pod1)
		env.forget(ctx, older)
		env.disputed(ctx, 2)
		env.answers(older, env.Pod1)
	})

	It("and one that has no IPAddress at all are served", func(ctx SpecContext) {
		lone := env.Serve(ctx, "lone", []environment.Endpoint{{Of: env.Pod1}})
		env.forget(ctx, lone)
		env.Endpoints(ctx, lone, environment.Endpoint{Of: env.Pod2}) // so that we see that the agent has looked since
		env.answers(lone, env.Pod2)
	})
})

var _ = eachAlone("Where IPAddresses are enforced, a Service", "enforce", func(env *fixture) {
	It("is served at addresses whose IPAddress names it, and at no others", func(ctx SpecContext) {
		service := env.Serve(ctx, "strict", []environment.Endpoint{{Of: env.Pod1}})
		env.answers(service, env.Pod1)
		env.disputed(ctx, 0)
		env.forget(ctx, service)
		env.end(service, 80, network.Dropped)
		env.disputed(ctx, 2)
		env.expectWarning(ctx, service, "NotAllocated", "")
		env.give(ctx, service)
		env.answers(service, env.Pod1)
		env.disputed(ctx, 0)
	})

	It("is not served at the address of an IPAddress that names something else", func(ctx SpecContext) {
		service := env.Serve(ctx, "unnamed", []environment.Endpoint{{Of: env.Pod1}})
		env.answers(service, env.Pod1)
		env.forget(ctx, service)
		other := env.Service(ctx, "no-claim")
		env.give(ctx, service, framework.ManagedBy("example.com"), framework.WithIPLabel("who", "me"), named(other))
		for _, f := range network.Families {
			Eventually(func() network.Result {
				return env.Pod1.Dial(network.Probe{To: environment.VIP(service, f), Timeout: network.DropTimeout})
			}).WithTimeout(environment.Soon).ShouldNot(environment.End(network.Connected))
		}
		env.disputed(ctx, 2)
	})

	// The API server takes the IPAddress away by its name, whomever it names.
	It("loses its right when another one with its ClusterIP is deleted, and gets it again", func(ctx SpecContext) {
		older := env.Serve(ctx, "older", []environment.Endpoint{{Of: env.Pod1}})
		younger := env.competitor(ctx, older, "younger", environment.Endpoint{Of: env.Pod2})
		env.answers(younger, env.Pod2)
		env.Delete(ctx, older.Name)
		env.end(younger, 80, network.Dropped)
		env.give(ctx, younger)
		env.answers(younger, env.Pod2)
	})
})
