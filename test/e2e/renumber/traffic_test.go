package renumber_test

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/internal/batch"
	"github.com/clusterip-operator/clusterip-operator/plugin/renumber"
	"github.com/clusterip-operator/clusterip-operator/proxyagent/model"
	"github.com/clusterip-operator/clusterip-operator/test/e2e/internal/environment"
	"github.com/clusterip-operator/clusterip-operator/test/framework/network"
)

func familiesOf(s *corev1.Service) (all []model.Family) {
	for _, f := range network.Families {
		if slices.Contains(s.Spec.IPFamilies, corev1.IPFamily(f.String())) {
			all = append(all, f)
		}
	}
	return all
}

// The kinds of traffic.
const (
	toOld   = "new connections to the old address"
	toNew   = "new connections to the new address"
	ports   = "new connections to node ports"
	lbs     = "new connections to load balancer IPs"
	kept    = "exchanges over connections to the old address that stay"
	keptOut = "exchanges over connections to node ports and load balancer IPs that stay"
	flows   = "datagrams of UDP flows to the old address"
)

var allKinds = []string{toOld, toNew, ports, lbs, kept, keptOut, flows}

// traffic goes to a sample of the Services, by kind.
type traffic map[string]*environment.Traffic

// use starts the traffic, and waits until all of it goes on that can before the Services are moved.
// Old addresses are those that they have now.
func (env *fixture) use(ctx context.Context) traffic {
	GinkgoHelper()
	all, items := traffic{}, env.items()
	for _, kind := range allKinds {
		all[kind] = environment.NewTraffic()
	}
	for i, s := range env.before[:sampled] {
		from, to := []*network.Namespace{env.Pod1, env.Node, env.Client}[i%3], items[s.Name].New
		now := env.Get(ctx, s.Name).Spec.ClusterIPs
		if now[0] == to[0].String() {
			to = items[s.Name].Old
		}
		for n, address := range now {
			vip := port80(netip.MustParseAddr(address))
			environment.Reaches(from, vip)
			all[toOld].Connect(from, vip)
			all[toNew].ConnectOnceServed(from, port80(to[n]))
			all[kept].Stay(from, "tcp", vip, 2)
			all[flows].Stay(from, "udp", vip, 1)
		}
		env.useFromOutside(all, s)
	}
	for kind, t := range all {
		if kind != toNew {
			t.Flows()
		}
	}
	By("the Services are in use")
	return all
}

// useFromOutside is the traffic of a client outside of the cluster.
func (env *fixture) useFromOutside(all traffic, s *corev1.Service) {
	GinkgoHelper()
	for _, f := range familiesOf(s) {
		if port := s.Spec.Ports[0].NodePort; port != 0 {
			at := netip.AddrPortFrom(env.Node.Addr(f), uint16(port))
			all[ports].Connect(env.Client, at)
			all[keptOut].Stay(env.Client, "tcp", at, 1)
		}
	}
	for _, ingress := range s.Status.LoadBalancer.Ingress {
		at := port80(netip.MustParseAddr(ingress.IP))
		all[lbs].Connect(env.Client, at)
		all[keptOut].Stay(env.Client, "tcp", at, 1)
	}
}

// items are what the plan says of each Service.
func (env *fixture) items() map[string]renumber.Item {
	GinkgoHelper()
	var p struct {
		batch.Head
		renumber.Plan
	}
	Expect(batch.Load(env.plan, batch.Head{APIVersion: v1alpha1.GroupVersion.String(), Kind: renumber.KindPlan}, &p)).To(Succeed())
	Expect(p.Services).To(HaveLen(services))
	all := map[string]renumber.Item{}
	for _, i := range p.Services {
		all[i.Name] = i
	}
	return all
}

// inUse are the addresses that the sample has now.
func (env *fixture) inUse(ctx context.Context) (all []string) {
	GinkgoHelper()
	for _, s := range env.before[:sampled] {
		all = append(all, env.Get(ctx, s.Name).Spec.ClusterIPs...)
	}
	return all
}

// served counts those of some addresses that are served.
func (env *fixture) served(addresses []string) int {
	var n atomic.Int32
	var asked sync.WaitGroup
	for _, address := range addresses {
		asked.Go(func() {
			if env.Pod1.Dial(network.Probe{To: port80(netip.MustParseAddr(address)), Timeout: network.DropTimeout}).Outcome == network.Connected {
				n.Add(1)
			}
		})
	}
	asked.Wait()
	return int(n.Load())
}

func port80(a netip.Addr) netip.AddrPort { return netip.AddrPortFrom(a, 80) }

// lostNothing ends kinds of traffic, all if none is named, and expects that nothing of it got lost.
func (t traffic) lostNothing(kinds ...string) {
	GinkgoHelper()
	var lost []string
	for kind, one := range t {
		if len(kinds) == 0 || slices.Contains(kinds, kind) {
			one.Stop()
			By(t.counted(kind))
			_, losses := one.Count()
			lost = append(lost, losses...)
		}
	}
	Expect(lost).To(BeEmpty())
}

// goesOn waits until new connections have been made for a while.
func (t traffic) goesOn() {
	GinkgoHelper()
	for _, kind := range []string{toOld, toNew, ports, lbs} {
		t[kind].Flows()
	}
}

// counted says how much of a kind got lost.
func (t traffic) counted(kind string) string {
	tried, losses := t[kind].Count()
	return fmt.Sprintf("%s: %d of %d lost", kind, len(losses), tried)
}
