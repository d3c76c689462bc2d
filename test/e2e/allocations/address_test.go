//go:build linux

package allocations_test

import (
	"net/netip"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/test/e2e/internal/environment"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/network"
)

// named points an IPAddress at a Service.
func named(s *corev1.Service) framework.IPAddressOption {
	return framework.WithParent(networkingv1.ParentReference{Resource: "services", Namespace: s.Namespace, Name: s.Name})
}

// That the modes of --allocations do not differ in this is in TestClaims of package compile.
var _ = each("An additional address", "prefer", func(env *fixture) {
	at := func(a netip.Addr) netip.AddrPort { return netip.AddrPortFrom(a, 80) }
	var service, other *corev1.Service
	BeforeAll(func(ctx SpecContext) {
		service = env.Serve(ctx, "growing", []environment.Endpoint{{Of: env.Pod2}}, environment.BothProtocols())
		other = env.Serve(ctx, "other", []environment.Endpoint{{Of: env.RemotePod}})
		env.answers(service, env.Pod2)
		env.answers(other, env.RemotePod)
	})
	remove := func(ctx SpecContext, a netip.Addr) {
		GinkgoHelper()
		env.withdraw(ctx, a.String())
	}

	It("comes and goes, and the ClusterIP loses nothing", func(ctx SpecContext) {
		traffic := env.Traffic(ctx, service)
		for _, f := range network.Families {
			env.endAt(at(free(f, 1)), network.Dropped)
			env.address(ctx, free(f, 1).String(), service, framework.ManagedBy(operator))
			env.answersAt(at(free(f, 1)), env.Pod2)
			env.endAt(netip.AddrPortFrom(free(f, 1), 88), network.Refused)
			Expect(env.Pod1.Dial(network.Probe{To: at(free(f, 1)), Protocol: model.UDP})).To(environment.End(network.Connected))
		}
		extra := &corev1.Service{ObjectMeta: service.ObjectMeta, Spec: service.Spec}
		extra.Spec.ClusterIPs = []string{free(model.IPv4, 1).String(), free(model.IPv6, 1).String()}
		both := env.Traffic(ctx, extra)
		env.Endpoints(ctx, service, environment.Endpoint{Of: env.Pod2}, environment.Endpoint{Of: env.Pod2, Extra: 1})
		both.LostNothing()
		for _, f := range network.Families {
			remove(ctx, free(f, 1))
			env.endAt(at(free(f, 1)), network.Dropped)
		}
		traffic.LostNothing()
	})

	It("moves to another Service", func(ctx SpecContext) {
		for _, f := range network.Families {
			env.address(ctx, free(f, 2).String(), service, framework.ManagedBy(operator))
			env.answersAt(at(free(f, 2)), env.Pod2)
			remove(ctx, free(f, 2))
			env.address(ctx, free(f, 2).String(), other, framework.ManagedBy(operator))
			env.answersAt(at(free(f, 2)), env.RemotePod)
			remove(ctx, free(f, 2))
		}
	})

	It("may lie outside of all ServiceCIDRs, and waits for its Service", func(ctx SpecContext) {
		late := framework.NewService(env.Name, "late")
		for _, f := range network.Families {
			env.address(ctx, network.VirtualAddr(f, 9).String(), late, framework.ManagedBy(operator))
		}
		late = env.Serve(ctx, "late", []environment.Endpoint{{Of: env.Pod2}})
		for _, f := range network.Families {
			env.answersAt(at(network.VirtualAddr(f, 9)), env.Pod2)
		}
		env.Delete(ctx, late.Name)
		for _, f := range network.Families {
			Eventually(func() network.Result {
				return env.Pod1.Dial(network.Probe{To: at(network.VirtualAddr(f, 9)), Timeout: network.DropTimeout})
			}).WithTimeout(environment.Soon).ShouldNot(environment.End(network.Connected))
			remove(ctx, network.VirtualAddr(f, 9))
		}
	})

	It("is none when somebody else keeps it", func(ctx SpecContext) {
		for _, f := range network.Families {
			env.address(ctx, free(f, 3).String(), service, framework.ManagedBy("somebody.example.com"))
			env.address(ctx, free(f, 4).String(), service, framework.ManagedBy(operator))
			env.answersAt(at(free(f, 4)), env.Pod2)
			Expect(env.Pod1.Dial(network.Probe{To: at(free(f, 3)), Timeout: network.DropTimeout})).NotTo(environment.End(network.Connected))
			remove(ctx, free(f, 3))
			remove(ctx, free(f, 4))
		}
	})
})
