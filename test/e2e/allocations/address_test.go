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
		service = env.serve(ctx, "growing", env.pod2, environment.BothProtocols)
		other = env.serve(ctx, "other", env.remote)
		env.answers(service, env.pod2)
		env.answers(other, env.remote)
	})

	It("comes and goes, and the ClusterIP loses nothing", func(ctx SpecContext) {
		traffic := env.Traffic(service)
		for _, f := range network.Families {
			env.endAt(at(free(f, 1)), network.Dropped)
			env.address(ctx, free(f, 1).String(), service, framework.ManagedBy(operator))
			env.answersAt(at(free(f, 1)), env.pod2)
			env.endAt(netip.AddrPortFrom(free(f, 1), 88), network.Refused)
			Expect(env.Pod1.Dial(network.Probe{To: at(free(f, 1)), Protocol: model.UDP})).To(environment.End(network.Connected))
		}
		extra := &corev1.Service{ObjectMeta: service.ObjectMeta, Spec: service.Spec}
		extra.Spec.ClusterIPs = []string{free(model.IPv4, 1).String(), free(model.IPv6, 1).String()}
		both := env.Traffic(extra)
		env.Endpoints(ctx, service, env.pod2, environment.Endpoint{Of: env.Pod2, Extra: 1})
		both.LostNothing()
		for _, f := range network.Families {
			env.withdraw(ctx, free(f, 1).String())
			env.endAt(at(free(f, 1)), network.Dropped)
		}
		traffic.LostNothing()
	})

	It("moves to another Service", func(ctx SpecContext) {
		for _, f := range network.Families {
			env.address(ctx, free(f, 2).String(), service, framework.ManagedBy(operator))
			env.answersAt(at(free(f, 2)), env.pod2)
			env.withdraw(ctx, free(f, 2).String())
			env.address(ctx, free(f, 2).String(), other, framework.ManagedBy(operator))
			env.answersAt(at(free(f, 2)), env.remote)
		}
	})

	It("may lie outside of all ServiceCIDRs, and waits for its Service", func(ctx SpecContext) {
		for _, f := range network.Families {
			env.address(ctx, network.VirtualAddr(f, 9).String(), framework.NewService(env.Name, "late"), framework.ManagedBy(operator))
		}
		env.serve(ctx, "late", env.pod2)
		for _, f := range network.Families {
			env.answersAt(at(network.VirtualAddr(f, 9)), env.pod2)
		}
		env.Delete(ctx, "late")
		for _, f := range network.Families {
			environment.EndsElse(env.Pod1, at(network.VirtualAddr(f, 9)), network.Connected)
		}
	})

	It("is none when somebody else keeps it", func(ctx SpecContext) {
		for _, f := range network.Families {
			env.address(ctx, free(f, 3).String(), service, framework.ManagedBy("somebody.example.com"))
			env.address(ctx, free(f, 4).String(), service, framework.ManagedBy(operator))
			env.answersAt(at(free(f, 4)), env.pod2)
			Expect(env.Pod1.Dial(network.Probe{To: at(free(f, 3)), Timeout: network.DropTimeout})).NotTo(environment.End(network.Connected))
		}
	})
})

// What is dropped and what is refused without an allocation: numbers 5, 6, 140 of package flows.
var _ = each("An address inside of a ServiceCIDR", "prefer", func(env *fixture) {
	const served = 8080 // where whatever has an address of its own answers

	It("is let through when something has it that is no Service", func(ctx SpecContext) {
		for _, f := range network.Families {
			a := netip.AddrPortFrom(free(f, 11), served)
			env.moveIn(ctx, a.Addr())
			env.endAt(a, network.Dropped)
			env.address(ctx, a.Addr().String(), env.NewService("no-matter"), framework.ManagedBy("example.com"),
				framework.WithParent(networkingv1.ParentReference{
					Group: "gateway.networking.k8s.io", Resource: "gateways", Namespace: env.Name, Name: "edge",
				}))
			env.endAt(a, network.Connected)
			env.withdraw(ctx, a.Addr().String())
			env.endAt(a, network.Dropped)
		}
	})

	It("is let through when a Service has it that another proxy serves", func(ctx SpecContext) {
		alien := env.serve(ctx, "alien", env.pod1, framework.WithLabel("service.kubernetes.io/service-proxy-name", "another"))
		env.answers(env.serve(ctx, "ours", env.pod1), env.pod1) // so the agent has seen the other one, too
		for _, f := range network.Families {
			a := netip.AddrPortFrom(environment.VIP(alien, f).Addr(), served)
			env.moveIn(ctx, a.Addr())
			env.endAt(a, network.Connected)
			Expect(env.Pod1.Dial(network.Probe{To: environment.VIP(alien, f), Timeout: network.DropTimeout})).To(HaveField("Server", BeEmpty()), "not ours to serve")
		}
	})
})
