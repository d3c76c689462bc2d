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

// dispute has the address change its owner by the IPAddress, by age, and by a deletion. Each time
// the one answers until the other does, and there is no moment without an answer.
//
// Once there was one: rules that pod1 met on its way out changed while its packet to itself was
// under way (TestWhatPacketsMeetLateStays in package tables).
func dispute(env *fixture) {
	var older, younger *corev1.Service

	It("are served as one: the one that the IPAddress names, also after a restart of the agent", func(ctx SpecContext) {
		older = env.serve(ctx, "older", env.pod1, twoPorts)
		env.answers(older, env.pod1)
		env.disputed(ctx, 0)
		olderThanNext(older)
		younger = env.competitor(ctx, older, "younger", env.pod2)
		env.wins(ctx, younger, env.pod2, older, "AllocatedToOtherService")
		env.end(younger, 81, network.Refused)
		witness := env.witness(older)
		Expect(env.Agent.Kill()).To(Succeed())
		Expect(env.Agent.Start(ctx)).To(Succeed())
		env.disputed(ctx, 2)
		env.answers(younger, env.pod2)
		witness.saw(env.pod2)
	})

	It("change places when the IPAddress is moved", func(ctx SpecContext) {
		witness := env.witness(older)
		witness.saw(env.pod2)
		env.forget(ctx, older)
		env.give(ctx, older)
		env.wins(ctx, older, env.pod1, younger, "AllocatedToOtherService")
		witness.saw(env.pod2, env.pod1)
		env.end(older, 81, network.Connected)
		env.Endpoints(ctx, older)
		env.end(older, 80, network.Refused)
		env.Endpoints(ctx, older, env.pod1)
		env.answers(older, env.pod1)
	})

	It("are decided by age when no IPAddress decides, and leave the address to the one that is left", func(ctx SpecContext) {
		witness := env.witness(older)
		witness.saw(env.pod1)
		env.forget(ctx, older)
		env.wins(ctx, older, env.pod1, younger, "ClaimedByOlderService")
		env.Delete(ctx, older.Name)
		env.answers(younger, env.pod2)
		witness.saw(env.pod1, env.pod2)
		env.end(younger, 81, network.Refused)
		env.disputed(ctx, 0)
	})
}

var _ = eachAlone("Two Services with one ClusterIP", "prefer", dispute)

var _ = translated("Two Services with one ClusterIP", "prefer", dispute)

var _ = each("A Service that claims the ClusterIP of another one as external IP", "prefer", func(env *fixture) {
	It("does not get it", func(ctx SpecContext) {
		owner := env.serve(ctx, "web-owner", env.pod1)
		env.answers(owner, env.pod1)
		claimer := env.serve(ctx, "claimer", env.pod2, twoPorts, func(s *corev1.Service) { s.Spec.ExternalIPs = owner.Spec.ClusterIPs })
		env.answers(claimer, env.pod2)
		env.wins(ctx, owner, env.pod1, claimer, "ClusterIPOfOtherService")
		env.end(owner, 81, network.Refused)
	})
})

// hijack has Services claim the ClusterIPs of one that another proxy serves. That the modes of
// --allocations do not differ otherwise is in TestClaims of package compile.
func hijack(env *fixture) {
	It("does not get it, as external IP or as load balancer IP", func(ctx SpecContext) {
		owner := env.serve(ctx, "alien", env.pod1, framework.WithLabel("service.kubernetes.io/service-proxy-name", "another"))
		byUser := env.serve(ctx, "by-user", env.pod2, func(s *corev1.Service) { s.Spec.ExternalIPs = owner.Spec.ClusterIPs })
		byStatus := env.serve(ctx, "by-status", env.remote, func(s *corev1.Service) {
			s.Spec.Type, s.Status.LoadBalancer.Ingress = corev1.ServiceTypeLoadBalancer, environment.Ingress(owner.Spec.ClusterIPs...)
		})
		env.answers(byUser, env.pod2)
		env.answers(byStatus, env.remote)
		env.disputed(ctx, 4)
		env.warned(ctx, byUser, "ClusterIPOfOtherService", "another Service")
		env.warned(ctx, byStatus, "ClusterIPOfOtherService", "another Service")
		for _, f := range network.Families {
			for _, from := range []*network.Namespace{env.Pod1, env.Node, env.Client} {
				Expect(from.Dial(network.Probe{To: environment.VIP(owner, f), Timeout: network.DropTimeout})).
					To(HaveField("Server", BeEmpty()), "not ours to serve, and not for another Service")
			}
		}
		env.relabel(ctx, owner, nil)
		env.answers(owner, env.pod1)
		env.disputed(ctx, 4)
		env.relabel(ctx, owner, map[string]string{"service.kubernetes.io/service-proxy-name": "another"})
		for _, f := range network.Families {
			environment.EndsElse(env.Pod1, environment.VIP(owner, f), network.Connected)
		}
		env.disputed(ctx, 4)
	})
}

var _ = each("Where IPAddresses are enforced, a Service that claims the ClusterIP of one that another proxy serves", "enforce", hijack)

var _ = each("Without regard to IPAddresses, a Service that claims the ClusterIP of one that another proxy serves", "ignore", hijack)

var _ = eachAlone("Without regard to IPAddresses, two Services with one ClusterIP", "ignore", func(env *fixture) {
	It("are decided by age, and one that has no IPAddress at all is served", func(ctx SpecContext) {
		older := env.serve(ctx, "older", env.pod1)
		olderThanNext(older)
		younger := env.competitor(ctx, older, "younger", env.pod2)
		env.wins(ctx, older, env.pod1, younger, "ClaimedByOlderService")
		env.forget(ctx, older)
		env.disputed(ctx, 2)
		env.Endpoints(ctx, older, env.remote) // so that we see that the agent has looked since
		env.answers(older, env.remote)
	})
})

var _ = eachAlone("Where IPAddresses are enforced, a Service", "enforce", func(env *fixture) {
	It("is served at addresses whose IPAddress names it, and at no others", func(ctx SpecContext) {
		service := env.serve(ctx, "strict", env.pod1)
		env.answers(service, env.pod1)
		env.disputed(ctx, 0)
		env.forget(ctx, service)
		env.end(service, 80, network.Dropped)
		env.disputed(ctx, 2)
		env.warned(ctx, service, "NotAllocated", "")
		env.give(ctx, service)
		env.answers(service, env.pod1)
		env.disputed(ctx, 0)
	})

	It("is not served at the address of an IPAddress that names something else", func(ctx SpecContext) {
		service := env.serve(ctx, "unnamed", env.pod1)
		env.answers(service, env.pod1)
		env.forget(ctx, service)
		env.give(ctx, service, framework.ManagedBy("example.com"), named(env.Serve(ctx, "no-claim", nil)))
		for _, f := range network.Families {
			environment.EndsElse(env.Pod1, environment.VIP(service, f), network.Connected)
		}
		env.disputed(ctx, 2)
	})

	// The API server takes the IPAddress away by its name, whichever Service it names.
	It("loses its right when another one with its ClusterIP is deleted, and gets it again", func(ctx SpecContext) {
		older := env.serve(ctx, "older", env.pod1)
		younger := env.competitor(ctx, older, "younger", env.pod2)
		env.answers(younger, env.pod2)
		env.Delete(ctx, older.Name)
		env.end(younger, 80, network.Dropped)
		env.give(ctx, younger)
		env.answers(younger, env.pod2)
	})
})
