//go:build linux

package environment

import (
	"context"
	"net/netip"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
	corev1 "k8s.io/api/core/v1"

	"github.com/clusterip-operator/clusterip-operator/test/e2e/internal/traffic"
	"github.com/clusterip-operator/clusterip-operator/test/framework/network"
)

// End matches the Result of a Dial by how it ended.
func End(outcome network.Outcome) types.GomegaMatcher { return HaveField("Outcome", outcome) }

// Reaches expects that an address is served before long, over TCP, and returns by whom.
func Reaches(from *network.Namespace, to netip.AddrPort) network.Result {
	GinkgoHelper()
	var result network.Result
	Eventually(func() network.Result {
		result = from.Dial(network.Probe{To: to})
		return result
	}).WithTimeout(Soon).WithPolling(50*time.Millisecond).Should(End(network.Connected), "from %s to %s", from.Host(), to)
	return result
}

// Ends expects that connections to an address end in one way before long.
func Ends(from *network.Namespace, to netip.AddrPort, outcome network.Outcome) {
	GinkgoHelper()
	Eventually(func() network.Result {
		return from.Dial(network.Probe{To: to, Timeout: network.DropTimeout})
	}).WithTimeout(Soon).WithPolling(50*time.Millisecond).Should(End(outcome), "from %s to %s", from.Host(), to)
}

// Served expects that a Service is served at its ClusterIPs of both families, to a pod.
func (s *Environment) Served(service *corev1.Service) {
	GinkgoHelper()
	for _, f := range network.Families {
		Reaches(s.Pod1, VIP(service, f))
	}
}

// Traffic is all that goes to one Service: new connections from a pod, from the node and from outside, and TCP connections and
// UDP flows of a pod that stay.
type Traffic struct{ all map[string]*traffic.Traffic }

// Traffic starts it to a Service that is served, and expects it to run well before it returns. UDP is part of it if the Service has a port for
// that. The pod is Pod1: none of its Extra addresses may be an endpoint, for a pod that meets itself at another address than its own does
// not know itself.
func (s *Environment) Traffic(ctx context.Context, service *corev1.Service) *Traffic {
	GinkgoHelper()
	t := &Traffic{all: map[string]*traffic.Traffic{}}
	DeferCleanup(func() { t.Stop() })
	for _, f := range network.Families {
		vip := VIP(service, f)
		t.connect("pod, "+f.String(), s.Pod1, vip)
		t.connect("node, "+f.String(), s.Node, vip)
		t.connect("client, "+f.String(), s.Client, vip)
		if port := service.Spec.Ports[0].NodePort; port != 0 {
			t.connect("client to node port, "+f.String(), s.Client, netip.AddrPortFrom(s.Node.Addr(f), uint16(port))) //nolint:gosec // a port
		}
		t.stay(ctx, "kept, "+f.String(), traffic.Hold, s.Pod1, vip)
		for _, port := range service.Spec.Ports {
			if port.Protocol == corev1.ProtocolUDP {
				t.stay(ctx, "udp, "+f.String(), traffic.Flow, s.Pod1, netip.AddrPortFrom(vip.Addr(), uint16(port.Port))) //nolint:gosec // a port
			}
		}
	}
	t.Flows()
	return t
}

func (t *Traffic) connect(name string, from *network.Namespace, to netip.AddrPort) {
	t.all[name] = traffic.Connections(traffic.Target{Dial: from.DialContext, Address: to.String(), Every: 20 * time.Millisecond}, 1)
}

type keeper func(context.Context, traffic.Target, int) (*traffic.Traffic, error)

func (t *Traffic) stay(ctx context.Context, name string, keep keeper, from *network.Namespace, to netip.AddrPort) {
	GinkgoHelper()
	traffic, err := keep(ctx, traffic.Target{Dial: from.DialContext, Address: to.String(), Every: 100 * time.Millisecond}, 8)
	Expect(err).NotTo(HaveOccurred(), name)
	t.all[name] = traffic
}

// Flows expects that each kind of traffic goes on, which takes it a moment.
func (t *Traffic) Flows() {
	GinkgoHelper()
	for name, traffic := range t.all {
		before := traffic.SoFar().Tried
		Eventually(func() int { return traffic.SoFar().Tried }).WithTimeout(Soon).Should(BeNumerically(">", before+4), name)
	}
}

// Stop ends it and returns what got lost, by the kind of traffic. It may be called twice.
func (t *Traffic) Stop() map[string]traffic.Report {
	lost := map[string]traffic.Report{}
	for name, traffic := range t.all {
		if report := traffic.Stop(); report.Lost > 0 {
			lost[name] = report
		}
	}
	return lost
}

// LostNothing ends it and expects that it went on to the end, and that nothing of it got lost.
func (t *Traffic) LostNothing() {
	GinkgoHelper()
	t.Flows()
	Expect(t.Stop()).To(BeEmpty())
}
