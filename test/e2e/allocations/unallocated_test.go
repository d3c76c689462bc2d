//go:build linux

package allocations_test

import (
	"net/netip"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/test/e2e/internal/environment"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
	"github.com/clusterip-operator/clusterip-operator/test/framework/network"
)

// served is the port on which whatever has an address of its own answers; see moveIn.
const served = 8080

var _ = each("An address inside of a ServiceCIDR", "", func(env *fixture) {
	It("is dropped when no Service has it, even if a host has that address", func(ctx SpecContext) {
		for _, f := range network.Families {
			a := netip.AddrPortFrom(free(f, 10), served)
			env.moveIn(ctx, a.Addr())
			env.endAt(a, network.Dropped)
			Expect(env.Pod1.Dial(network.Probe{To: a, Protocol: model.UDP, Timeout: network.DropTimeout})).To(environment.End(network.Dropped))
		}
	})

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
		alien := env.Serve(ctx, "alien", []environment.Endpoint{{Of: env.Pod1}},
			framework.WithLabel("service.kubernetes.io/service-proxy-name", "another"))
		ours := env.Serve(ctx, "ours", []environment.Endpoint{{Of: env.Pod1}})
		env.answers(ours, env.Pod1) // so the agent has seen the other one, too
		for _, f := range network.Families {
			a := netip.AddrPortFrom(environment.VIP(alien, f).Addr(), served)
			env.moveIn(ctx, a.Addr())
			env.endAt(a, network.Connected)
			Expect(env.Pod1.Dial(network.Probe{To: environment.VIP(alien, f)})).To(HaveField("Server", BeEmpty()), "not ours to serve")
		}
	})

	It("refuses ports that its Service does not have", func(ctx SpecContext) {
		service := env.Serve(ctx, "one-port", []environment.Endpoint{{Of: env.Pod1}})
		env.answers(service, env.Pod1)
		env.end(service, 8080, network.Refused)
		for _, f := range network.Families {
			for _, protocol := range []model.Protocol{model.UDP, model.SCTP} {
				Expect(env.Pod1.Dial(network.Probe{To: environment.VIP(service, f), Protocol: protocol})).
					To(environment.End(network.Refused), protocol.String())
			}
		}
		env.Delete(ctx, service.Name)
		env.end(service, 80, network.Dropped)
	})
})

var _ = each("A ServiceCIDR that is new", "", func(env *fixture) {
	It("is honoured from its creation to its end", func(ctx SpecContext) {
		cidrs := map[model.Family]string{model.IPv4: "10.97.0.0/24", model.IPv6: "fd00:10:97::/112"}
		inside := map[model.Family]netip.Addr{model.IPv4: netip.MustParseAddr("10.97.0.77"), model.IPv6: netip.MustParseAddr("fd00:10:97::77")}
		for _, a := range inside {
			env.moveIn(ctx, a)
			env.endAt(netip.AddrPortFrom(a, served), network.Connected)
		}
		_, err := env.Cluster.Networking().ServiceCIDRs().
			Create(ctx, framework.NewServiceCIDR("second", cidrs[model.IPv4], cidrs[model.IPv6]), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		gone := false
		remove := func(ctx SpecContext) {
			if !gone {
				Expect(env.Cluster.Networking().ServiceCIDRs().Delete(ctx, "second", metav1.DeleteOptions{})).To(Succeed())
			}
			gone = true
		}
		DeferCleanup(remove)
		for _, a := range inside {
			env.endAt(netip.AddrPortFrom(a, served), network.Dropped)
		}
		wanted := env.NewService("in-the-new-one", framework.WithClusterIPs("10.97.0.5", "fd00:10:97::5"))
		var service *corev1.Service
		Eventually(func() (err error) { // the API server has to learn of the range first
			service, err = env.Cluster.Client().CoreV1().Services(env.Name).Create(ctx, wanted, metav1.CreateOptions{})
			return err
		}).WithTimeout(environment.Soon).Should(Succeed())
		env.Endpoints(ctx, service, environment.Endpoint{Of: env.Pod1})
		env.answers(service, env.Pod1)
		env.end(service, 81, network.Refused)
		env.Delete(ctx, service.Name)
		env.end(service, 80, network.Dropped)
		remove(ctx)
		for _, a := range inside {
			env.endAt(netip.AddrPortFrom(a, served), network.Connected)
		}
	})
})
