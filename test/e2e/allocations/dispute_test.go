//go:build linux

package allocations_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	"github.com/clusterip-operator/clusterip-operator/test/e2e/internal/stage"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/network"
)

// twoPorts gives a Service the ports 80 and 81.
func twoPorts(s *corev1.Service) {
	s.Spec.Ports = []corev1.ServicePort{{Name: "http", Port: 80}, {Name: "more", Port: 81}}
}

var _ = eachAlone("Two Services with one ClusterIP", "", func(the func() *world) {
	var older, younger *corev1.Service

	It("are served as one: the one that the IPAddress names", func(ctx SpecContext) {
		w := the()
		older = w.Serve(ctx, "older", []stage.Endpoint{{Of: w.Pod1}}, twoPorts)
		w.answers(older, w.Pod1)
		w.disputed(ctx, 0)
		aSecond()
		younger = w.rival(ctx, older, "younger", stage.Endpoint{Of: w.Pod2})
		w.answers(younger, w.Pod2)
		w.end(younger, 81, network.Refused)
		w.disputed(ctx, 2)
		w.told(ctx, older, "AllocatedToOtherService", "younger")
	})

	It("stay so over a restart of the agent", func(ctx SpecContext) {
		w := the()
		Expect(w.Agent.Kill()).To(Succeed())
		Expect(w.Agent.Start(ctx)).To(Succeed())
		w.answers(younger, w.Pod2)
		w.disputed(ctx, 2)
	})

	It("change places when the IPAddress is moved", func(ctx SpecContext) {
		w := the()
		w.forget(ctx, older)
		w.give(ctx, older)
		w.answers(older, w.Pod1)
		w.end(older, 81, network.Connected)
		w.disputed(ctx, 2)
		w.told(ctx, younger, "AllocatedToOtherService", "older")
	})

	It("follow the endpoints of the rightful one alone", func(ctx SpecContext) {
		w := the()
		w.Endpoints(ctx, younger, stage.Endpoint{Of: w.Pod1, Extra: 5})
		w.Endpoints(ctx, older, stage.Endpoint{Of: w.RemotePod})
		w.answers(older, w.RemotePod)
		w.Endpoints(ctx, older)
		w.end(older, 80, network.Refused)
		w.Endpoints(ctx, older, stage.Endpoint{Of: w.Pod1})
		w.answers(older, w.Pod1)
	})

	It("are decided by age when no IPAddress decides", func(ctx SpecContext) {
		w := the()
		w.forget(ctx, older)
		w.told(ctx, younger, "ClaimedByOlderService", "older")
		w.answers(older, w.Pod1)
		w.disputed(ctx, 2)
	})

	It("leave the address to the one that is left", func(ctx SpecContext) {
		w := the()
		w.Delete(ctx, older.Name)
		w.Endpoints(ctx, younger, stage.Endpoint{Of: w.Pod2})
		w.answers(younger, w.Pod2)
		w.end(younger, 81, network.Refused)
		w.disputed(ctx, 0)
	})
})

var _ = each("A Service that claims the ClusterIP of another one as external IP", "", func(the func() *world) {
	It("does not get it", func(ctx SpecContext) {
		w := the()
		victim := w.Serve(ctx, "victim", []stage.Endpoint{{Of: w.Pod1}})
		w.answers(victim, w.Pod1)
		thief := w.Serve(ctx, "thief", []stage.Endpoint{{Of: w.Pod2}}, twoPorts,
			func(s *corev1.Service) { s.Spec.ExternalIPs = victim.Spec.ClusterIPs })
		w.answers(thief, w.Pod2)
		w.answers(victim, w.Pod1)
		w.end(victim, 81, network.Refused)
		w.disputed(ctx, 2)
		w.told(ctx, thief, "ClusterIPOfOtherService", "victim")
	})
})

var _ = each("Without regard to IPAddresses, two Services with one ClusterIP", "ignore", func(the func() *world) {
	It("are decided by age", func(ctx SpecContext) {
		w := the()
		older := w.Serve(ctx, "older", []stage.Endpoint{{Of: w.Pod1}})
		aSecond()
		younger := w.rival(ctx, older, "younger", stage.Endpoint{Of: w.Pod2})
		w.told(ctx, younger, "ClaimedByOlderService", "older")
		w.answers(older, w.Pod1)
		w.forget(ctx, older)
		w.disputed(ctx, 2)
		w.answers(older, w.Pod1)
	})

	It("and one that has no IPAddress at all are served", func(ctx SpecContext) {
		w := the()
		lone := w.Serve(ctx, "lone", []stage.Endpoint{{Of: w.Pod1}})
		w.forget(ctx, lone)
		w.Endpoints(ctx, lone, stage.Endpoint{Of: w.Pod2}) // so that we see that the agent has looked since
		w.answers(lone, w.Pod2)
	})
})

var _ = eachAlone("Where IPAddresses are enforced, a Service", "enforce", func(the func() *world) {
	It("is served at addresses whose IPAddress names it, and at no others", func(ctx SpecContext) {
		w := the()
		service := w.Serve(ctx, "strict", []stage.Endpoint{{Of: w.Pod1}})
		w.answers(service, w.Pod1)
		w.disputed(ctx, 0)
		w.forget(ctx, service)
		w.end(service, 80, network.Dropped)
		w.disputed(ctx, 2)
		w.told(ctx, service, "NotAllocated", "")
		w.give(ctx, service)
		w.answers(service, w.Pod1)
		w.disputed(ctx, 0)
	})

	It("is not served at the address of an IPAddress that names something else", func(ctx SpecContext) {
		w := the()
		service := w.Serve(ctx, "usurped", []stage.Endpoint{{Of: w.Pod1}})
		w.answers(service, w.Pod1)
		w.forget(ctx, service)
		other := w.Service(ctx, "no-claim")
		w.give(ctx, service, framework.ManagedBy("example.com"), framework.WithIPLabel("who", "me"), named(other))
		for _, f := range network.Families {
			Eventually(func() network.Result {
				return w.Pod1.Dial(network.Probe{To: stage.VIP(service, f), Timeout: network.DropTimeout})
			}).WithTimeout(stage.Soon).ShouldNot(stage.End(network.Connected))
		}
		w.disputed(ctx, 2)
	})

	// The API server takes the IPAddress away by its name, whomever it names.
	It("loses its right when another one with its ClusterIP is deleted, and gets it again", func(ctx SpecContext) {
		w := the()
		older := w.Serve(ctx, "older", []stage.Endpoint{{Of: w.Pod1}})
		younger := w.rival(ctx, older, "younger", stage.Endpoint{Of: w.Pod2})
		w.answers(younger, w.Pod2)
		w.Delete(ctx, older.Name)
		w.end(younger, 80, network.Dropped)
		w.give(ctx, younger)
		w.answers(younger, w.Pod2)
	})
})
