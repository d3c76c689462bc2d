//go:build linux

package allocations_test

import (
	"net/netip"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/test/e2e/internal/stage"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/network"
)

// named points an IPAddress at a Service.
func named(s *corev1.Service) framework.IPAddressOption {
	return framework.WithParent(networkingv1.ParentReference{Resource: "services", Namespace: s.Namespace, Name: s.Name})
}

// Additional addresses are served in every mode; what else there is to say of them is said of each mode in `make soak` alone.
func additional(allocations string, rest ...string) bool {
	return each("An additional address, --allocations="+allocations, allocations, func(the func() *world) {
		at := func(a netip.Addr) netip.AddrPort { return netip.AddrPortFrom(a, 80) }
		var service, other *corev1.Service
		BeforeAll(func(ctx SpecContext) {
			w := the()
			service = w.Serve(ctx, "growing", []stage.Endpoint{{Of: w.Pod2}}, stage.BothProtocols())
			other = w.Serve(ctx, "other", []stage.Endpoint{{Of: w.RemotePod}})
			w.answers(service, w.Pod2)
			w.answers(other, w.RemotePod)
		})
		remove := func(ctx SpecContext, a netip.Addr) {
			GinkgoHelper()
			the().withdraw(ctx, a.String())
		}

		It("comes and goes, and the ClusterIP loses nothing", func(ctx SpecContext) {
			w := the()
			traffic := w.Traffic(ctx, service)
			for _, f := range network.Families {
				w.endAt(at(free(f, 1)), network.Dropped)
				w.address(ctx, free(f, 1).String(), service, framework.ManagedBy(operator))
				w.answersAt(at(free(f, 1)), w.Pod2)
				w.endAt(netip.AddrPortFrom(free(f, 1), 88), network.Refused)
				Expect(w.Pod1.Dial(network.Probe{To: at(free(f, 1)), Protocol: model.UDP})).To(stage.End(network.Connected))
			}
			extra := &corev1.Service{ObjectMeta: service.ObjectMeta, Spec: service.Spec}
			extra.Spec.ClusterIPs = []string{free(model.IPv4, 1).String(), free(model.IPv6, 1).String()}
			both := w.Traffic(ctx, extra)
			w.Endpoints(ctx, service, stage.Endpoint{Of: w.Pod2}, stage.Endpoint{Of: w.Pod2, Extra: 1})
			both.LostNothing()
			for _, f := range network.Families {
				remove(ctx, free(f, 1))
				w.endAt(at(free(f, 1)), network.Dropped)
			}
			traffic.LostNothing()
		})

		It("moves to another Service", Label(rest...), func(ctx SpecContext) {
			w := the()
			for _, f := range network.Families {
				w.address(ctx, free(f, 2).String(), service, framework.ManagedBy(operator))
				w.answersAt(at(free(f, 2)), w.Pod2)
				remove(ctx, free(f, 2))
				w.address(ctx, free(f, 2).String(), other, framework.ManagedBy(operator))
				w.answersAt(at(free(f, 2)), w.RemotePod)
				remove(ctx, free(f, 2))
			}
		})

		It("may lie outside of all ServiceCIDRs, and waits for its Service", Label(rest...), func(ctx SpecContext) {
			w := the()
			late := framework.NewService(w.Name, "late")
			for _, f := range network.Families {
				w.address(ctx, network.VirtualAddr(f, 9).String(), late, framework.ManagedBy(operator))
			}
			late = w.Serve(ctx, "late", []stage.Endpoint{{Of: w.Pod2}})
			for _, f := range network.Families {
				w.answersAt(at(network.VirtualAddr(f, 9)), w.Pod2)
			}
			w.Delete(ctx, late.Name)
			for _, f := range network.Families {
				Eventually(func() network.Result {
					return w.Pod1.Dial(network.Probe{To: at(network.VirtualAddr(f, 9)), Timeout: network.DropTimeout})
				}).WithTimeout(stage.Soon).ShouldNot(stage.End(network.Connected))
				remove(ctx, network.VirtualAddr(f, 9))
			}
		})

		It("is none when somebody else keeps it", Label(rest...), func(ctx SpecContext) {
			w := the()
			for _, f := range network.Families {
				w.address(ctx, free(f, 3).String(), service, framework.ManagedBy("somebody.example.com"))
				w.address(ctx, free(f, 4).String(), service, framework.ManagedBy(operator))
				w.answersAt(at(free(f, 4)), w.Pod2)
				Expect(w.Pod1.Dial(network.Probe{To: at(free(f, 3)), Timeout: network.DropTimeout})).NotTo(stage.End(network.Connected))
				remove(ctx, free(f, 3))
				remove(ctx, free(f, 4))
			}
		})
	})
}

var (
	_ = additional("prefer")
	_ = additional("enforce", "soak")
	_ = additional("ignore", "soak")
)
